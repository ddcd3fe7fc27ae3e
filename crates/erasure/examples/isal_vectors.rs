//! Writes the known answers of `testdata/isal-cauchy.txt` to standard output, computed by ISA-L.
//! Needs `libisal.so.2` (Debian: `apt install libisal2`) or `DEWAR_ISAL`.
//!
//! `cargo run -p dewar-erasure --example isal_vectors > crates/erasure/testdata/isal-cauchy.txt`

#[path = "../tests/isal/mod.rs"]
mod isal;
#[path = "../tests/material/mod.rs"]
mod material;

const LAYOUTS: [(usize, usize); 12] = [
    (1, 1),
    (1, 4),
    (2, 1),
    (2, 2),
    (3, 2),
    (4, 2),
    (5, 3),
    (8, 3),
    (10, 4),
    (15, 4),
    (16, 1),
    (16, 4),
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let isal = isal::Isal::load()?;
    println!("# Parity computed by ISA-L (gf_gen_cauchy1_matrix, ec_encode_data), written by the");
    println!(
        "# example isal_vectors. Data shard j is SplitMix64 from seed + j, words little-endian,"
    );
    println!("# cut to its length; shorter shards are padded with zeros to the longest.");
    println!("# layout seed data-lengths parity-in-hex");
    let mut seed = 0x11d;
    for (k, m) in LAYOUTS {
        let mut cases: Vec<Vec<usize>> = [1, 31, 64, 257].map(|length| vec![length; k]).into();
        // The last stripe: full units, one that ends early, none.
        let full = k / 2;
        let short = |j: usize| [130, 77, 0][usize::from(j >= full) + usize::from(j > full)];
        cases.push((0..k).map(short).collect());
        if (k, m) == (4, 2) {
            cases.push(vec![1000; k]);
        }
        for lengths in cases {
            seed += 1000;
            let parity = isal.encode(&material::data(seed, &lengths), m);
            let lengths: Vec<String> = lengths.iter().map(usize::to_string).collect();
            let parity: Vec<String> = parity.iter().map(|shard| hex(shard)).collect();
            println!("{k}+{m} {seed} {} {}", lengths.join(","), parity.join(","));
        }
    }
    Ok(())
}
