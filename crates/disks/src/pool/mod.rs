//! Pools: named sets of disks, each with a layout of its own. The pools of one Dewar are one
//! object, since journal and catalog use all their disks. Each disk belongs to one pool
//! permanently.
//!
//! A disk is a folder with an identity file (RECORDS.md section 6). A folder that is absent, empty
//! or of another Dewar is a missing disk. Nothing here creates, formats or writes to such a folder
//! unless [`format()`] was called for it.

mod identity;
mod placement;
mod space;

use std::collections::BTreeMap;
use std::sync::Arc;

use dewar_env::{Disk, DiskErrorKind, DiskState, Env};
use dewar_types::{DiskId, Error, ErrorKind, Layout, Result};
use parking_lot::RwLock;

pub use identity::{DewarId, IDENTITY_FILE, Identity, IdentityError, fuzz_identity};
pub(crate) use placement::DiskBackoff;
pub use placement::Placement;
pub(crate) use space::{SpaceAccounting, SpaceDemand, SpaceReservation};

/// A disk of a pool that was found and is ours.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its id, from the identity file.
    pub id: DiskId,
    /// The folder.
    pub disk: Arc<dyn Disk>,
    /// The number of its pool, from the same file.
    pub pool: u16,
}

/// The disks of one Dewar, in one pool or several.
#[derive(Debug)]
pub struct Pool {
    env: Env,
    dewar: DewarId,
    number: u16,
    layouts: BTreeMap<u16, Layout>,
    members: RwLock<BTreeMap<DiskId, Member>>,
}

/// The content of a folder that belongs to a pool's configuration.
#[derive(Debug)]
pub enum FolderProbe {
    /// A disk with an identity.
    Disk(Identity),
    /// A folder without an identity file: never formatted, or an unmounted mount point.
    Blank,
    /// It cannot be read now.
    Absent(Error),
}

/// The number of a pool other than the main one, which has 0. It is computed from the name, so no
/// list of numbers can be lost; a format, docs/formats/disk.md.
#[must_use]
pub fn number_of(name: &str) -> u16 {
    let sum = dewar_checksum::crc32c(name.as_bytes()) % u32::from(u16::MAX);
    // At most 65,535.
    u16::try_from(sum + 1).unwrap_or(u16::MAX)
}

/// Examines a folder without changing it.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when there is an identity file that cannot be parsed.
pub async fn inspect(disk: &dyn Disk) -> Result<FolderProbe> {
    match disk.read_file(IDENTITY_FILE).await {
        Ok(bytes) => match Identity::parse(&bytes) {
            Ok(identity) => Ok(FolderProbe::Disk(identity)),
            Err(error) => Err(Error::with_source(
                ErrorKind::Corrupt,
                format!("{}/{IDENTITY_FILE}: {error}", disk.label()),
                error,
            )),
        },
        Err(error) if error.kind() == DiskErrorKind::NotFound => Ok(FolderProbe::Blank),
        Err(error) => Ok(FolderProbe::Absent(error.into())),
    }
}

/// Refuses a folder that is not empty; changes nothing.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] when the folder has an identity or any other entry.
pub async fn check_blank(disk: &dyn Disk) -> Result<()> {
    let taken = |what: String| {
        let message = format!("{} is not blank: it holds {what}", disk.label());
        Err(Error::new(ErrorKind::AlreadyExists, message))
    };
    match inspect(disk).await? {
        FolderProbe::Disk(identity) => return taken(format!("disk {}", identity.disk)),
        FolderProbe::Absent(error) => return Err(error.context("formatting")),
        FolderProbe::Blank => {}
    }
    // What a fresh file system puts into its root by itself is not somebody's data, and neither is
    // an identity that a crash kept from getting its name.
    let ignored = ["lost+found".to_owned(), format!("{IDENTITY_FILE}.tmp")];
    let holds = disk.list("").await?;
    match holds.iter().find(|entry| !ignored.contains(&entry.name)) {
        Some(entry) => taken(format!("{:?}", entry.name)),
        None => Ok(()),
    }
}

/// Makes a blank folder a disk of a pool, in place of another one if `replaces` says so. Dewar
/// begins to write to a folder in no other way.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] when the folder has an identity or any other entry.
pub async fn format(
    env: &Env,
    disk: &dyn Disk,
    dewar: DewarId,
    pool: u16,
    replaces: Option<DiskId>,
) -> Result<Identity> {
    check_blank(disk).await?;
    let identity = Identity {
        dewar,
        disk: DiskId(env.rng.u128()),
        pool,
        created: env.clock.now(),
        replaces,
    };
    disk.replace_file(IDENTITY_FILE, identity.to_text().into())
        .await?;
    Ok(identity)
}

impl Pool {
    /// The present disks, of one pool unless [`Pool::with`] names others. Configured disks that are
    /// missing now are left out.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when two folders claim the same id.
    pub fn new(
        env: Env,
        dewar: DewarId,
        number: u16,
        layout: Layout,
        disks: Vec<Member>,
    ) -> Result<Self> {
        let mut members: BTreeMap<DiskId, Member> = BTreeMap::new();
        for member in disks {
            if let Some(other) = members.get(&member.id) {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!(
                        "{} and {} both say they are disk {}: is one a copy of the other? Unmount or \
                         rename the one that is not to be used",
                        other.disk.label(),
                        member.disk.label(),
                        member.id
                    ),
                ));
            }
            members.insert(member.id, member);
        }
        Ok(Self {
            env,
            dewar,
            number,
            layouts: [(number, layout)].into(),
            members: RwLock::new(members),
        })
    }

    /// With a further pool.
    #[must_use]
    pub fn with(mut self, number: u16, layout: Layout) -> Self {
        self.layouts.entry(number).or_insert(layout);
        self
    }

    /// Adds a disk that was missing at the start, or that has another path now.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] when a disk with its id is present already: one is a copy of
    /// the other.
    pub fn join(&self, member: Member) -> Result<()> {
        let mut members = self.members.write();
        if let Some(known) = members.get(&member.id)
            && known.disk.state() != DiskState::Missing
        {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!(
                    "{} says it is disk {}, which {} is: is one a copy of the other?",
                    member.disk.label(),
                    member.id,
                    known.disk.label()
                ),
            ));
        }
        members.insert(member.id, member);
        Ok(())
    }

    /// Forgets a disk that was removed.
    pub fn leave(&self, id: DiskId) {
        self.members.write().remove(&id);
    }

    /// Clock and randomness.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The deployment that the disks belong to.
    #[must_use]
    pub fn dewar(&self) -> DewarId {
        self.dewar
    }

    /// The number of the main pool, as records and headers have it.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The layout of the main pool while no disk is missing.
    #[must_use]
    pub fn layout(&self) -> Layout {
        // The main pool is there from the beginning.
        self.layouts[&self.number]
    }

    /// The layout of any pool; `None` for a pool that is not configured.
    #[must_use]
    pub fn layout_of(&self, pool: u16) -> Option<Layout> {
        self.layouts.get(&pool).copied()
    }

    /// All pools with their layouts, by number.
    pub fn layouts(&self) -> impl Iterator<Item = (u16, Layout)> + use<> {
        self.layouts.clone().into_iter()
    }

    /// Number of arbitrary disks whose loss journal and catalog survive: the largest m of any pool.
    #[must_use]
    pub fn tolerance(&self) -> usize {
        let most = self.layouts.values().map(|layout| layout.m).max();
        usize::from(most.unwrap_or(0))
    }

    /// A disk by its id; `None` when it was not present so far.
    #[must_use]
    pub fn member(&self, id: DiskId) -> Option<Member> {
        self.members.read().get(&id).cloned()
    }

    /// All disks that were present so far, by id.
    pub fn members(&self) -> impl Iterator<Item = Member> + use<> {
        let members: Vec<Member> = self.members.read().values().cloned().collect();
        members.into_iter()
    }

    /// The disks that can be written to now.
    pub fn writable(&self) -> impl Iterator<Item = Member> + use<> {
        self.members()
            .filter(|member| member.disk.state().writable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Disks are known by these numbers: they never change.
    #[test]
    fn numbers_of_pools_follow_from_their_names() {
        // The check value of CRC-32C is that of these nine digits.
        assert_eq!(u32::from(number_of("123456789")), 0xe306_9283 % 65_535 + 1);
        assert_eq!(number_of(""), 1);
    }
}
