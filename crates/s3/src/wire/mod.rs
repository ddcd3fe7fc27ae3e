//! S3's headers and XML, read and written: attributes, conditions, checksums, dates.

mod acl;
mod attributes;
mod checksum;
mod condition;
mod date;
mod encryption;
mod source;
mod unsupported;
mod version_attributes;

pub(crate) use acl::{acl_document, acl_elements, acl_of, ownership_named};
pub(crate) use attributes::{object_headers, version_attributes_of};
pub(crate) use checksum::{
    DeclaredDigests, algorithm_named, announced_checksum, checksum_headers, named_checksum,
    part_checksum_headers, verify_small,
};
pub(crate) use condition::delete_condition;
pub(crate) use date::xml_date;
pub(crate) use encryption::{customer_key, encryption_headers, encryption_of, source_key};
pub(crate) use source::{
    bucket_named, copy_range, key_named, object_named, rename_source, version_named,
};
pub(crate) use unsupported::refuse_unsupported;
pub(crate) use version_attributes::{
    abort_headers, legal_hold_of, mode_name, mode_named, settings_of, version_headers,
};
