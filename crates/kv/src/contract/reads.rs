//! Gets, scans and snapshots.

use std::sync::Arc;

use super::{adds, bytes, commit, count, deletes, get, keys, puts, scan, scan_back};
use crate::{Batch, Kv, Scan};

/// The engine is empty, and reads of absent keys are no error.
pub async fn empty_engine_has_nothing(kv: Arc<dyn Kv>) {
    assert_eq!(get(&*kv, "a").await, None);
    let page = scan(&*kv, "", "", 10).await;
    assert!(page.pairs.is_empty() && !page.more);
    assert!(kv.changes(0, 10).await.expect("changes").is_empty());
    assert_eq!(get(&*kv.snapshot(), "a").await, None);
}

/// Put, get and delete of a key.
pub async fn put_get_delete(kv: Arc<dyn Kv>) {
    commit(&kv, puts(&[("a", "1"), ("b", "2")])).await;
    assert_eq!(get(&*kv, "a").await.as_deref(), Some("1"));
    commit(&kv, puts(&[("a", "3")])).await;
    assert_eq!(get(&*kv, "a").await.as_deref(), Some("3"));
    assert_eq!(get(&*kv, "b").await.as_deref(), Some("2"));
    commit(&kv, deletes(&["a", "never-there"])).await;
    assert_eq!(get(&*kv, "a").await, None);
    commit(&kv, puts(&[("a", "4")])).await;
    assert_eq!(get(&*kv, "a").await.as_deref(), Some("4"));
    assert_eq!(get(&*kv, "aa").await, None);
}

/// An empty value is not an absent key; a megabyte is an ordinary value; keys are any bytes.
pub async fn values_may_be_empty_and_large(kv: Arc<dyn Kv>) {
    let large = bytes(vec![7; 1 << 20]);
    let odd = bytes([0, 255, 0, b'/']);
    let batch = Batch {
        puts: vec![
            (bytes("empty"), bytes("")),
            (bytes("large"), large.clone()),
            (odd.clone(), bytes([0, 1, 255])),
        ],
        ..Batch::default()
    };
    commit(&kv, batch).await;
    assert_eq!(get(&*kv, "empty").await.as_deref(), Some(""));
    let read = kv.get(b"large").await.expect("get");
    assert_eq!(read.value, Some(large));
    let read = kv.get(&odd).await.expect("get");
    assert_eq!(read.value, Some(bytes([0, 1, 255])));
}

/// `from` is in, `to` is out, an empty `to` means no end, and reversal changes only the order.
pub async fn scan_goes_both_ways_within_its_bounds(kv: Arc<dyn Kv>) {
    commit(
        &kv,
        puts(&[("b", "2"), ("d", "4"), ("a", "1"), ("c", "3"), ("ca", "5")]),
    )
    .await;
    commit(&kv, deletes(&["d"])).await;
    assert_eq!(keys(&scan(&*kv, "", "", 10).await), ["a", "b", "c", "ca"]);
    assert_eq!(keys(&scan(&*kv, "b", "ca", 10).await), ["b", "c"]);
    assert_eq!(keys(&scan(&*kv, "bb", "", 10).await), ["c", "ca"]);
    assert_eq!(
        keys(&scan_back(&*kv, "", "", 10).await),
        ["ca", "c", "b", "a"]
    );
    assert_eq!(keys(&scan_back(&*kv, "b", "ca", 10).await), ["c", "b"]);
    assert!(scan(&*kv, "c", "c", 10).await.pairs.is_empty());
    assert!(scan(&*kv, "d", "a", 10).await.pairs.is_empty());
    assert!(scan_back(&*kv, "d", "a", 10).await.pairs.is_empty());
}

/// `more` is true exactly when a further pair exists in the range.
pub async fn scan_limits_and_says_more(kv: Arc<dyn Kv>) {
    commit(&kv, puts(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")])).await;
    commit(&kv, deletes(&["d"])).await;
    let page = scan(&*kv, "", "", 2).await;
    assert_eq!(
        (keys(&page), page.more),
        (vec!["a".into(), "b".into()], true)
    );
    let page = scan(&*kv, "", "", 3).await;
    assert_eq!((page.pairs.len(), page.more), (3, false));
    let page = scan_back(&*kv, "", "c", 1).await;
    assert_eq!((keys(&page), page.more), (vec!["b".into()], true));
    let page = scan(&*kv, "", "", 0).await;
    assert_eq!((page.pairs.len(), page.more), (0, true));
}

/// Paging by the last key returns every pair once, forward and backward.
pub async fn scan_resumes_without_gap_or_repeat(kv: Arc<dyn Kv>) {
    for group in 0..5 {
        let batch = Batch {
            puts: (0..200)
                .map(|i| {
                    (
                        bytes(format!("k{:04}", i * 5 + group)),
                        bytes(format!("{i}")),
                    )
                })
                .collect(),
            ..Batch::default()
        };
        commit(&kv, batch).await;
    }
    let view = kv.snapshot();
    let expected: Vec<String> = (0..1000).map(|i| format!("k{i:04}")).collect();
    let mut found = Vec::new();
    let mut from = bytes("k");
    loop {
        let scan = Scan {
            from: &from,
            to: b"l",
            limit: 37,
            reverse: false,
        };
        let page = view.scan(scan).await.expect("scan");
        found.extend(keys(&page));
        if !page.more {
            break;
        }
        let mut next = page.pairs.last().expect("a cut page has pairs").0.to_vec();
        next.push(0);
        from = next.into();
    }
    assert_eq!(found, expected);

    let mut back = Vec::new();
    let mut to = bytes("l");
    loop {
        let scan = Scan {
            from: b"k",
            to: &to,
            limit: 41,
            reverse: true,
        };
        let page = view.scan(scan).await.expect("scan");
        back.extend(keys(&page));
        if !page.more {
            break;
        }
        to = page.pairs.last().expect("a cut page has pairs").0.clone();
    }
    back.reverse();
    assert_eq!(back, expected);
}

/// A snapshot shows neither later puts, nor later deletes, nor half of a batch.
pub async fn snapshot_stays_as_it_was(kv: Arc<dyn Kv>) {
    let first = commit(&kv, puts(&[("a", "1"), ("b", "1")])).await;
    let view = kv.snapshot();
    commit(&kv, puts(&[("a", "2"), ("c", "2")])).await;
    commit(&kv, deletes(&["b"])).await;
    assert_eq!(get(&*view, "a").await.as_deref(), Some("1"));
    assert_eq!(get(&*view, "b").await.as_deref(), Some("1"));
    assert_eq!(get(&*view, "c").await, None);
    let page = scan(&*view, "", "", 10).await;
    assert_eq!(keys(&page), ["a", "b"]);
    assert_eq!(page.seq, first);
    assert_eq!(keys(&scan(&*kv, "", "", 10).await), ["a", "c"]);
}

/// Many snapshots, each with its own content, released in any order.
pub async fn snapshots_of_different_ages(kv: Arc<dyn Kv>) {
    let mut views = Vec::new();
    for i in 0..20 {
        let text = format!("{i}");
        if i % 3 == 2 {
            commit(&kv, deletes(&["k"])).await;
        } else {
            commit(&kv, puts(&[("k", &text)])).await;
        }
        views.push((i, kv.snapshot()));
    }
    // Every other one goes, oldest and newest among them.
    views.retain(|(i, _)| i % 2 == 1 && *i != 19);
    commit(&kv, puts(&[("k", "end")])).await;
    for (i, view) in &views {
        let expected = (i % 3 != 2).then(|| format!("{i}"));
        assert_eq!(get(&**view, "k").await, expected, "snapshot {i}");
        let seen = scan(&**view, "", "", 9).await.pairs.len();
        assert_eq!(seen, usize::from(expected.is_some()));
    }
    drop(views);
    assert_eq!(get(&*kv, "k").await.as_deref(), Some("end"));
}

/// Sequence numbers rise with every commit, and every read names the last batch that it includes.
pub async fn sequences_rise_and_reads_carry_them(kv: Arc<dyn Kv>) {
    let first = commit(&kv, puts(&[("a", "1")])).await;
    let second = commit(&kv, puts(&[("b", "1")])).await;
    assert!(0 < first && first < second);
    assert!(kv.get(b"a").await.expect("get").seq >= second);
    let view = kv.snapshot();
    let third = commit(&kv, puts(&[("c", "1")])).await;
    let read = view.get(b"a").await.expect("get");
    assert!(read.seq >= second && read.seq < third);
    assert!(kv.get(b"zzz").await.expect("get").seq >= third);
}

/// Counters are ordinary pairs to snapshots and scans.
pub async fn counters_in_snapshots_and_scans(kv: Arc<dyn Kv>) {
    commit(&kv, adds(&[("n", 5)])).await;
    let view = kv.snapshot();
    commit(&kv, adds(&[("n", 7), ("o", 1)])).await;
    commit(&kv, puts(&[("m", "x")])).await;
    assert_eq!(count(&*view, "n").await, Some(5));
    assert_eq!(count(&*view, "o").await, None);
    assert_eq!(count(&*kv, "n").await, Some(12));
    let page = scan(&*kv, "", "", 10).await;
    assert_eq!(keys(&page), ["m", "n", "o"]);
    assert_eq!(&page.pairs[1].1[..], 12_i64.to_be_bytes());
    let page = scan(&*view, "", "", 10).await;
    assert_eq!(keys(&page), ["n"]);
    assert_eq!(&page.pairs[0].1[..], 5_i64.to_be_bytes());
}
