//! The source of random numbers.

/// A source of random bytes.
pub trait Rng: Send + Sync {
    /// Fills `bytes`. The real generator is fit for keys; the simulated one repeats from its seed.
    fn fill(&self, bytes: &mut [u8]);

    /// 64 random bits.
    fn u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// 128 random bits.
    fn u128(&self) -> u128 {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        u128::from_le_bytes(bytes)
    }
}

/// The operating system's generator.
pub struct RealRng;

impl Rng for RealRng {
    fn fill(&self, bytes: &mut [u8]) {
        let mut filled = 0;
        while filled < bytes.len() {
            match rustix::rand::getrandom(
                &mut bytes[filled..],
                rustix::rand::GetRandomFlags::empty(),
            ) {
                Ok(n) => filled += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("the kernel gives no random numbers: {error}"),
            }
        }
    }
}
