//! The folders and files of the machine: the folders of the disks, the master key file, and the state
//! folder, which remembers the pool.
//!
//! The simulation has none of these. It gives the engine its own disks.

mod first_space;
mod folders;
pub mod format_pool;
pub mod master_key_file;
pub mod paths;
pub mod pool_state_file;
pub mod private_file;

pub use folders::{ConfiguredFolders, open_disk, probe};
pub use pool_state_file::PoolStateFile;
