//! Requests of a session that change names, in the order of their arrival.
//!
//! Requests of a session run side by side. A client that removes a tree requests the removal of a
//! directory directly after those of its entries, without waiting for answers. Servers that process
//! one request after the other allow that. The removal of a directory therefore waits for all
//! earlier requests of this kind; other requests do not wait.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use dewar_xrootd_proto::Request;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Directories remembered of which something was removed.
const LEFT_MAX: usize = 1024;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct NameOpOrder {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    under_way: BTreeSet<u64>,
    left: EmptiedDirectories,
}

/// Directories out of which files were removed, which may have gone with the last of them. Of more than
/// [`LEFT_MAX`] the oldest are forgotten.
#[derive(Debug, Default)]
struct EmptiedDirectories {
    known: BTreeSet<Arc<str>>,
    by_age: VecDeque<Arc<str>>,
}

impl EmptiedDirectories {
    fn add(&mut self, path: &str) {
        if self.known.contains(path) {
            return;
        }
        if self.by_age.len() >= LEFT_MAX
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.known.remove(&oldest);
        }
        let path: Arc<str> = path.into();
        self.known.insert(Arc::clone(&path));
        self.by_age.push_back(path);
    }
}

/// The place of one request.
#[derive(Debug)]
pub(crate) struct NameOpTicket {
    order: Arc<NameOpOrder>,
    number: u64,
}

impl NameOpOrder {
    /// The place of a request that just came, if it changes names.
    pub(crate) fn enter(self: &Arc<Self>, request: &Request) -> Option<NameOpTicket> {
        let changes = matches!(
            request,
            Request::Rm { .. } | Request::Rmdir { .. } | Request::Mv { .. } | Request::Mkdir { .. }
        );
        if !changes {
            return None;
        }
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.under_way.insert(number);
        Some(NameOpTicket {
            order: Arc::clone(self),
            number,
        })
    }
}

impl NameOpTicket {
    /// Returns when all that came before is done.
    pub(crate) async fn comes(&self) {
        loop {
            let ended = self.order.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.order.state.lock().under_way.first() == Some(&self.number) {
                return;
            }
            ended.await;
        }
    }

    /// A file was removed: the directories above it may have gone with it.
    pub(crate) fn removed(&self, path: &str) {
        let mut state = self.order.state.lock();
        let mut above = path;
        while let Some((parent, _)) = above.rsplit_once('/').filter(|(up, _)| !up.is_empty()) {
            above = parent;
            state.left.add(parent);
        }
    }

    /// Whether something was removed out of a directory on this session.
    pub(crate) fn has_left(&self, path: &str) -> bool {
        self.order.state.lock().left.known.contains(path)
    }
}

impl Drop for NameOpTicket {
    fn drop(&mut self) {
        self.order.state.lock().under_way.remove(&self.number);
        self.order.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_directory_waits_for_what_came_before_it_and_for_nothing_else() {
        let order: Arc<NameOpOrder> = Arc::default();
        let rm = |path: &str| order.enter(&Request::Rm { path: path.into() });
        let file = rm("/b/d/f").expect("a place");
        let dir = rm("/b/d").expect("a place");
        let later = rm("/b/x").expect("a place");
        assert!(order.enter(&Request::Ping).is_none());
        assert!(dir.comes().now_or_never().is_none());
        assert!(!dir.has_left("/b/d"));
        file.removed("/b/d/f");
        drop(file);
        assert!(dir.comes().now_or_never().is_some());
        assert!(dir.has_left("/b/d") && !dir.has_left("/b/e"));
        assert!(later.comes().now_or_never().is_none());
    }

    #[test]
    fn what_was_left_first_is_forgotten_first() {
        let order: Arc<NameOpOrder> = Arc::default();
        let turn = order
            .enter(&Request::Rm {
                path: "/b/f".into(),
            })
            .expect("a place");
        for number in 0..LEFT_MAX {
            turn.removed(&format!("/d{number}/f"));
            turn.removed(&format!("/d{number}/g"));
        }
        assert!(turn.has_left("/d0"));
        turn.removed("/one/more/f");
        assert!(turn.has_left("/one/more") && turn.has_left("/one") && turn.has_left("/d2"));
        assert!(!turn.has_left("/d0") && !turn.has_left("/d1"));
        assert_eq!(order.state.lock().left.known.len(), LEFT_MAX);
    }
}
