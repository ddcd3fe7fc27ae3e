//! The admin API: what an administrator does, as typed requests that reach the same
//! implementation over two ways.
//!
//! - **A server runs:** HTTP/1.1 with JSON over a unix socket of mode 0600, whose peer must be root
//!   or the user who runs the server ([`server`], [`client`]).
//! - **None runs:** the command opens the store itself and calls [`AdminApi`] directly.
//!
//! The lock in the state folder ([`crate::lock`]) makes sure that only one of the two happens.

mod api;
mod catalog;
mod client;
mod federation;
mod identity;
mod key_file;
mod quota;
pub(crate) mod secret_text;
mod server;
mod share;
mod socket;
mod told;
mod upkeep;

pub use api::{
    AdminApi, AdminError, DiskStatus, DoorStatus, Failure, KeyAdd, KeyInfo, NewKey, OpenUploads,
    Page, PoolInfo, PoolStatus, Reply, Request, State, Status, UploadOwner, UserAdd, UserInfo,
};
pub use catalog::{BackupInfo, BlobsInfo, CatalogInfo, RebuildWish, RestoreWish, TakenInfo};
pub use client::{Client, ClientError};
pub use federation::{
    FederationReply, FederationRequest, IssuerAdd, IssuerInfo, RevokeWish, RoleAdd, RoleInfo,
    TokenInfo,
};
pub use identity::{GroupInfo, HolderName, IdentityReply, IdentityRequest, PolicyInfo};
pub use key_file::{KeyFileReply, KeyFileRequest, MasterKeyInfo};
pub use quota::{QuotaInfo, QuotaLimits, QuotaRequest};
pub use server::serve;
pub use share::{ShareInfo, ShareRequest};
pub use socket::{AdminSocket, SocketError};
pub use told::carry_out;
pub(crate) use told::done_here;
pub use upkeep::{
    AtRiskInfo, DangerInfo, DiskAction, DiskAdded, DiskDecided, DiskInfo, DiskReadmitted,
    DiskRemoved, FULL, FsckInfo, HeldInfo, LedgerInfo, LedgerLineInfo, NO_IDENTITY, NO_RIGHT,
    NOWHERE, RepairInfo, ScrubInfo,
};

#[cfg(test)]
pub(crate) mod tests;
