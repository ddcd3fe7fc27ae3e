//! Disks in memory that fail as real ones do, from a seed.
//!
//! A [`SimWorld`] is one machine: its disks, its random numbers, its power. When the power fails,
//! changes that were not synced are lost as follows. Of every 4 KiB page, the old bytes, the new
//! ones or sectors of both stay. A change of a name that was not followed by a sync of its folder
//! is kept or lost. [`SimWorld::crash`] gives the machine after a power failure, [`SimWorld::kill`]
//! after the death of the process alone. [`SimWorld::crash_after`] lets the power fail at any
//! chosen operation, so that a test can do it at each of them:
//!
//! ```
//! # use dewar_env::disk::sim::SimWorld;
//! # use dewar_env::{Access, CreateOptions, Disk, DiskFile};
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
//! # runtime.block_on(async {
//! for ops in 1.. {
//!     let world = SimWorld::new(ops);
//!     let disk = world.add_disk("a");
//!     world.crash_after(ops);
//!     let written = async {
//!         let file = disk.create("f", CreateOptions::default()).await?;
//!         file.write_at(0, vec!["hello".into()]).await?;
//!         file.sync().await?;
//!         disk.sync_dir("").await
//!     };
//!     let acknowledged = written.await.is_ok();
//!     let after = world.crash(ops);
//!     if acknowledged {
//!         assert_eq!(after.disk(0).read_file("f").await.unwrap(), "hello");
//!         break;
//!     }
//! }
//! # });
//! ```
//!
//! Runs repeat exactly on a current-thread runtime with a paused clock.

mod content;
mod core;
mod disk;
mod fault;
mod file;
mod inode;
mod names;
#[cfg(test)]
mod tests;
mod world;

use super::Result;

pub use disk::{SimDisk, SimImage};
pub use fault::{SimCounters, SimFaults, SimLatency, SimOp};
pub use world::SimWorld;
