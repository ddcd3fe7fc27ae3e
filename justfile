# The words of `cargo xtask`, for those who like just. What they do stands in xtask/.

# Show the words
default:
    @just --list

# Build the release binary
build *args:
    cargo xtask build {{args}}

# Run the tests of all crates, then the end-to-end tests
test *args:
    cargo xtask test {{args}}

# Run the end-to-end tests: real clients against the real binary
e2e *args:
    cargo xtask e2e {{args}}

# Check format, clippy and tidy
lint:
    cargo xtask lint

# Format the code
fmt:
    cargo xtask fmt

# Check what the compiler cannot: edges between crates, sizes, names, links
tidy:
    cargo xtask tidy

# Run every fuzz target for a while
fuzz *args:
    cargo xtask fuzz {{args}}

# Run the whole core on simulated disks from seeds
sim *args:
    cargo xtask sim {{args}}

# Load a demo server made for the occasion
bench *args:
    cargo xtask bench {{args}}

# Make the reference pages and the API documentation
docs *args:
    cargo xtask docs {{args}}
