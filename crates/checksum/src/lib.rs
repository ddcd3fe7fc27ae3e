//! All digests of the protocols, computed in one pass while bytes stream.
//!
//! Digests are computed as the bytes come in and stored with the version ([`DigestSet`]). Only a
//! digest that a client asks for and that the version does not have is computed by reading, once.
//!
//! | you have | take |
//! |---|---|
//! | a page or another slice | [`crc32c`], [`adler32`], [`crc32`], [`crc64nvme`], [`fn@md5`] |
//! | many slices that need MD5 | [`md5_many`] |
//! | an upload | [`StreamDigests`], with one [`Md5Lanes`] for the whole server |
//! | a stream without a runtime around it | [`Pipeline`] |
//! | digests of parts | [`DigestSet::concat`], [`Composite`], [`multipart_etag`] |
//! | text of a client | [`Digest::from_hex`], [`Digest::from_base64`], [`Algorithm::from_s3_header`] |

mod adler;
mod algorithm;
mod crc;
mod digest;
mod md5;
mod multipart;
mod pipeline;
mod set;
mod stream;

pub use adler::{adler32, adler32_combine};
pub use algorithm::{Algorithm, AlgorithmSet, UnknownAlgorithm};
pub use crc::{Crc32c, crc32, crc32_combine, crc32c, crc32c_combine, crc64nvme, crc64nvme_combine};
pub use digest::{Digest, DigestError};
pub use md5::{LaneUse, Md5, Md5Lanes, Md5Stream, md5, md5_many};
pub use multipart::{Composite, CompositeError, multipart_etag};
pub use pipeline::Pipeline;
pub use set::DigestSet;
pub use stream::StreamDigests;
