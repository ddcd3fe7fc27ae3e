//! The admin API: the actions of an administrator, as typed requests that reach the same
//! implementation in two ways.
//!
//! - **With a running server:** HTTP/1.1 with JSON over a unix socket of mode 0600. The peer must
//!   be root or the user who runs the server ([`server`], [`client`]).
//! - **Without one:** the command opens the store itself and calls [`AdminApi`] directly.
//!
//! The lock in the state folder ([`crate::lock`]) ensures that only one of the two happens.

mod api;
mod audit_dispatch;
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
mod upkeep;

pub use api::{
    AccountState, AdminApi, AdminError, DiskStatus, DoorStatus, Failure, KeyAdd, KeyInfo, ListPage,
    NewKey, OpenUploads, PoolInfo, PoolStatus, Reply, Request, Status, UploadOwner, UserAdd,
    UserInfo,
};
pub use audit_dispatch::carry_out;
pub(crate) use audit_dispatch::done_here;
pub use catalog::{
    BackupInfo, BackupTakenInfo, BlobsInfo, CatalogInfo, RebuildRequest, RestoreRequest,
};
pub use client::{AdminClient, ClientError};
pub use federation::{
    FederationReply, FederationRequest, IssuerAdd, IssuerInfo, RevokeRequest, RoleAdd, RoleInfo,
    TokenInfo,
};
pub use identity::{GroupInfo, HolderName, IdentityReply, IdentityRequest, PolicyInfo};
pub use key_file::{KeyFileReply, KeyFileRequest, MasterKeyInfo};
pub use quota::{QuotaInfo, QuotaLimits, QuotaRequest};
pub use server::serve;
pub use share::{ShareInfo, ShareRequest};
pub use socket::{AdminSocket, SocketError};
pub use upkeep::{
    AtRiskInfo, DangerInfo, DiskAction, DiskAdded, DiskDecided, DiskInfo, DiskReadmitted,
    DiskRemoved, FULL, FsckInfo, LedgerInfo, LedgerLineInfo, NO_IDENTITY, NO_RIGHT, NOWHERE,
    RemainingFilesInfo, RepairInfo, ScrubInfo,
};

#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod wire_tests;
