//! Random verbs against a map: after each step every object is what the map says.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::{Rig, content, object, run};
use crate::api::{
    CopyRequest, Hierarchy, ReadCondition, RenameRequest, VersionAttributes, WriteCondition,
};

const KEYS: [&str; 6] = ["a", "a/b", "a/c/d", "b", "b/", "c/x"];

#[derive(Clone, Debug)]
enum Step {
    Put(usize, usize),
    Copy(usize, usize),
    Rename(usize, usize),
    Delete(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..KEYS.len();
    let len = prop_oneof![0usize..9_000, 9_000usize..120_000];
    prop_oneof![
        5 => (key(), len).prop_map(|(key, len)| Step::Put(key, len)),
        3 => (key(), key()).prop_map(|(from, to)| Step::Copy(from, to)),
        2 => (key(), key()).prop_map(|(from, to)| Step::Rename(from, to)),
        3 => key().prop_map(Step::Delete),
        2 => (0u64..20).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_verbs_agree_with_a_map(
        steps in proptest::collection::vec(step(), 1..40),
        seed in any::<u64>(),
    ) {
        run(async move {
            let rig = Rig::new(seed).await;
            let mut model: BTreeMap<&str, Bytes> = BTreeMap::new();
            for (n, step) in (0..).zip(steps) {
                match step {
                    Step::Put(key, len) => {
                        let bytes = content(len, seed ^ n);
                        rig.put(KEYS[key], &bytes).await.expect("put");
                        model.insert(KEYS[key], bytes);
                    }
                    Step::Copy(from, to) if from != to => {
                        let copy = CopyRequest {
                            hierarchy: Hierarchy::Flat,
                            encryption: None,
                            source_key: None,
                            source_version: None,
                            attributes: VersionAttributes::default(),
                            source: object(KEYS[from]),
                            source_condition: ReadCondition::default(),
                            target: object(KEYS[to]),
                            replace_headers: false,
                            checksum: None,
                            condition: WriteCondition::default(),
                            acl: None,
                        };
                        let copied = rig.store.copy(&rig.ann, copy).await;
                        let bytes = model.get(KEYS[from]).cloned();
                        prop_assert_eq!(copied.is_ok(), bytes.is_some(), "{:?}", copied);
                        if let Some(bytes) = bytes {
                            model.insert(KEYS[to], bytes);
                        }
                    }
                    Step::Rename(from, to) if from != to && model.contains_key(KEYS[from]) => {
                        let rename = RenameRequest {
                            source: object(KEYS[from]),
                            source_condition: WriteCondition::default(),
                            target: object(KEYS[to]).key,
                            condition: WriteCondition::default(),
                        };
                        rig.store.rename(&rig.ann, rename).await.expect("renamed");
                        let bytes = model.remove(KEYS[from]).expect("there");
                        model.insert(KEYS[to], bytes);
                    }
                    Step::Delete(key) => {
                        let existed = rig.delete(KEYS[key]).await.expect("deleted");
                        prop_assert_eq!(existed, model.remove(KEYS[key]).is_some());
                    }
                    Step::Wait(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
                    Step::Copy(..) | Step::Rename(..) => {}
                }
                let keys = rig.keys().await;
                prop_assert!(keys.iter().eq(model.keys()), "{:?}", keys);
                for (key, bytes) in &model {
                    let read = rig.get(key).await.expect("read");
                    prop_assert!(read == *bytes, "{} reads otherwise", key);
                }
            }
            for key in KEYS {
                rig.delete(key).await.expect("deleted");
            }
            rig.assert_empty().await;
            Ok(())
        })?;
    }
}
