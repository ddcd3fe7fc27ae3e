//! The front on a real store on simulated disks, spoken to as clients speak.

#![allow(unreachable_pub, reason = "modules of one test binary")]

mod access;
mod content;
mod copies;
mod fixture;
mod locks;
mod properties;
mod third_party;
