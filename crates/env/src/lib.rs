//! The outside world: clock, randomness and disks, real and simulated.
