use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

type Entries = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Keys that share prefixes, as names in a directory do.
fn key() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![Just(b'a'), Just(b'b'), any::<u8>()], 0..12)
}

fn entries() -> impl Strategy<Value = Entries> {
    let value = proptest::option::of(vec(any::<u8>(), 0..40));
    btree_map(key(), value, 1..80)
}

fn block_of(entries: &Entries) -> Block {
    let mut builder = BlockBuilder::default();
    for (key, value) in entries {
        builder.add(key, value.as_deref());
    }
    let mut bytes = Vec::new();
    builder.finish(&mut bytes);
    bytes.extend_from_slice(&[0; 4]);
    Block::parse(bytes.into()).unwrap()
}

proptest! {
    #[test]
    fn blocks_give_back_what_was_put_in(entries in entries(), probes in vec(key(), 20)) {
        let block = block_of(&entries);
        for key in entries.keys().chain(&probes) {
            let want = entries.get(key).map(|v| v.clone().map(Bytes::from));
            prop_assert_eq!(block.get(key).unwrap(), want, "get {:?}", key);

            let mut up = BlockCursor::new(block.clone());
            up.seek(key).unwrap();
            for (key, value) in entries.range(key.clone()..) {
                prop_assert_eq!(up.key(), Some(&key[..]));
                prop_assert_eq!(up.value(), value.as_deref());
                up.advance().unwrap();
            }
            prop_assert_eq!(up.key(), None);

            let mut down = BlockReverse::before(block.clone(), key).unwrap();
            let end = if key.is_empty() { vec![0xff; 13] } else { key.clone() };
            for (key, value) in entries.range(..end).rev() {
                prop_assert_eq!(down.key(), Some(&key[..]));
                prop_assert_eq!(down.value_bytes(), value.clone().map(Bytes::from));
                down.advance().unwrap();
            }
            prop_assert_eq!(down.key(), None);
        }
    }

    #[test]
    fn block_sizes_are_never_underestimated(entries in entries()) {
        let mut builder = BlockBuilder::default();
        let mut bound = 0;
        for (key, value) in &entries {
            bound = builder.size_with(key, value.as_deref());
            builder.add(key, value.as_deref());
        }
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        prop_assert!(bytes.len() + 4 <= bound, "{} bytes, not {bound}", bytes.len());
    }

    #[test]
    fn manifests_survive_the_way_there_and_back(
        lineage: u128,
        applied: u64,
        numbers in vec(any::<[u64; 5]>(), 0..20),
    ) {
        let runs = numbers.iter().map(|n| RunMeta {
            id: n[0],
            len: n[1],
            entries: n[2],
            deletions: n[3],
            crc: n[4] as u32,
            level: (n[4] >> 32) as u32,
        });
        let manifest = Manifest { lineage, number: 7, applied, runs: runs.collect() };
        let mut bytes = manifest.encode();
        prop_assert_eq!(Manifest::decode(&bytes), Ok(manifest));
        for n in 0..bytes.len() {
            bytes[n] ^= 0x10;
            prop_assert!(Manifest::decode(&bytes).is_err());
            bytes[n] ^= 0x10;
            prop_assert!(Manifest::decode(&bytes[..n]).is_err());
        }
    }

    #[test]
    fn nothing_panics_on_noise(bytes in vec(any::<u8>(), 0..200)) {
        fuzz_manifest(&bytes);
        fuzz_block(&bytes);
        fuzz_footer(&bytes);
    }

    #[test]
    fn nothing_panics_on_pieces_with_wrong_bytes(
        entries in entries(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut block = BlockBuilder::default();
        let mut partition = PartitionBuilder::default();
        let mut directory = DirectoryBuilder::default();
        let mut offset = HEADER_BYTES as u64;
        for (key, value) in &entries {
            block.add(key, value.as_deref());
            partition.add_key(key_hash(key));
            partition.add_block(key, Piece { offset, len: 50 });
            directory.add(key, Piece { offset: offset + 50, len: 10 });
            offset += 50;
        }
        let mut pieces = [Vec::new(), Vec::new(), directory.finish(b"zz")];
        block.finish(&mut pieces[0]);
        partition.finish(&mut pieces[1]);
        for mut piece in pieces {
            piece.extend_from_slice(&[0; 4]);
            for (at, byte) in &changes {
                let at = at.index(piece.len());
                piece[at] = *byte;
            }
            fuzz_block(&piece);
            fuzz_footer(&piece);
        }
    }

    #[test]
    fn separators_separate(a in key(), b in key()) {
        prop_assume!(a != b);
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        let between = separator(&low, &high);
        prop_assert!(low.as_slice() < between && between <= high.as_slice());
    }
}

#[test]
fn partitions_and_directories_find_their_way() {
    let mut partition = PartitionBuilder::default();
    let mut directory = DirectoryBuilder::default();
    let name = |n: u32| format!("k{n:03}").into_bytes();
    for n in 0..100 {
        partition.add_key(key_hash(&name(n)));
        let offset = 1000 + 50 * u64::from(n);
        partition.add_block(&name(n), Piece { offset, len: 50 });
        directory.add(&name(n), Piece { offset, len: 40 });
    }
    let mut bytes = Vec::new();
    partition.finish(&mut bytes);
    bytes.extend_from_slice(&[0; 4]);
    let partition = Partition::parse(bytes.into()).unwrap();
    let mut bytes = directory.finish(b"k099z");
    bytes.extend_from_slice(&[0; 4]);
    let directory = Directory::parse(bytes.into(), 6000).unwrap();
    assert_eq!((partition.len(), directory.len()), (100, 100));
    assert_eq!(directory.first_key(), b"k000");
    assert_eq!(directory.last_key(), b"k099z");
    for n in 0..100 {
        let at = usize::try_from(n).unwrap();
        let offset = 1000 + 50 * u64::from(n);
        assert_eq!(partition.block(at), Piece { offset, len: 50 });
        assert_eq!(directory.partition(at), Piece { offset, len: 40 });
        assert!(partition.may_hold(key_hash(&name(n))));
        let just_above = [name(n), b"!".to_vec()].concat();
        for key in [&name(n), &just_above] {
            assert_eq!(partition.find(key), Some(at));
            assert_eq!(directory.find(key), Some(at));
        }
        assert_eq!(partition.find_below(&just_above), Some(at));
        assert_eq!(partition.find_below(&name(n)), at.checked_sub(1));
        assert_eq!(directory.find_below(&name(n)), at.checked_sub(1));
    }
    assert_eq!(directory.find(b"a"), None);
}

#[test]
fn pieces_verify_at_their_place_alone() {
    let piece = Piece { offset: 40, len: 9 };
    let mut bytes = b"hello".to_vec();
    bytes.extend_from_slice(&checksum(5, 40, b"hello").to_le_bytes());
    assert!(piece.verifies(5, &bytes));
    assert!(!piece.verifies(6, &bytes));
    assert!(!Piece { offset: 49, len: 9 }.verifies(5, &bytes));
    assert!(!piece.verifies(5, &bytes[..8]));
    bytes[0] ^= 1;
    assert!(!piece.verifies(5, &bytes));
}
