//! Every digest the wires ask for, computed in one pass while bytes stream.

mod md5;

pub use md5::{LaneUse, Md5, Md5Lanes, Md5Stream, md5, md5_many};
