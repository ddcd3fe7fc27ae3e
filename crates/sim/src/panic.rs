//! Panics of tasks, which a runtime would keep to itself.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static SEEN: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Does `work` and returns what panicked on this thread meanwhile, in it or in a task.
pub(crate) fn watch(work: impl FnOnce()) -> Option<String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let kept = SEEN.with(|seen| match &mut *seen.borrow_mut() {
                Some(seen) => {
                    seen.push(info.to_string());
                    true
                }
                None => false,
            });
            if !kept {
                before(info);
            }
        }));
    });
    SEEN.with(|seen| *seen.borrow_mut() = Some(Vec::new()));
    // What it leaves behind is only reported, not used.
    let _ = panic::catch_unwind(AssertUnwindSafe(work));
    let seen = SEEN.with(|seen| seen.borrow_mut().take());
    seen.unwrap_or_default().into_iter().next()
}
