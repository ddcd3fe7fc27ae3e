//! Browser uploads: a form in multipart/form-data. Its fields correspond to the headers of a PUT,
//! and its last part is the file (S3 API reference, "POST Object").
//!
//! The fields are read into memory within limits, then the file streams. The framing is decoded by
//! [`dewar_http_front::FormDecoder`] and not by a library. The library multer 3 reads as long as the connection has data, so a
//! fast sender fills the memory, and it copies every byte.

mod fuzz;
mod policy;
mod read;

pub use fuzz::fuzz_policy;
pub use policy::{LengthRange, Policy};
pub use read::{FormFields, FormUpload};

#[cfg(test)]
mod tests;
