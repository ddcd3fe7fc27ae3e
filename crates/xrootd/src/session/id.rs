//! Ids of sessions. Clients keep them, and send them on the connection that follows a broken one.
//! An id therefore contains the start time of its session, for sessions that are forgotten
//! otherwise.

use dewar_env::Rng;
use dewar_types::Timestamp;
use dewar_xrootd_proto::SessionId;

/// Bytes of an id that say when the session began. The others are random.
const TIME_BYTES: usize = 6;

/// Of a moment's nanoseconds, the bits that an id leaves out: it is rounded down to 66 microseconds.
const TIME_SHIFT: u32 = 16;

/// A new one.
pub(crate) fn new(now: Timestamp, rng: &dyn Rng) -> SessionId {
    let mut id = SessionId::default();
    let (time, random) = id.0.split_at_mut(TIME_BYTES);
    time.copy_from_slice(&(now.0 >> TIME_SHIFT).to_be_bytes()[8 - TIME_BYTES..]);
    rng.fill(random);
    id
}

/// When the session of an id began, if the id is of this server.
pub(crate) fn began(id: SessionId) -> Timestamp {
    let mut time = [0; 8];
    time[8 - TIME_BYTES..].copy_from_slice(&id.0[..TIME_BYTES]);
    Timestamp(u64::from_be_bytes(time) << TIME_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_when_its_session_began() {
        let env = dewar_env::disk::sim::SimWorld::with_disks(1, 1).env();
        let now = Timestamp(1_764_000_000_123_456_789);
        let (one, other) = (new(now, &*env.rng), new(now, &*env.rng));
        assert!(one != other);
        assert!(began(one) <= now && now.0 - began(one).0 < 1 << TIME_SHIFT);
    }
}
