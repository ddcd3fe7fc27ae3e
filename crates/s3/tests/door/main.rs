//! The door in front of a real store on simulated disks, spoken to as clients speak.

#![allow(unreachable_pub, reason = "modules of one test binary")]

mod access;
mod client;
mod conditions;
mod copies;
mod cors;
mod crowd;
mod fixture;
mod form;
mod iam;
mod iam_providers;
mod listing;
mod lists;
mod multipart;
mod objects;
mod oracles;
mod payloads;
mod presigned;
mod refusals;
mod version_attributes;
mod versions;
mod wire;
