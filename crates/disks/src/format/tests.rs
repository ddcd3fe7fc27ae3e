//! The format as a whole: the cut is a bijection, and a blob goes into shard files and comes back
//! after the loss of any m of them, purely in memory. Plus a shard written by another program.

use std::collections::BTreeMap;

use dewar_checksum::crc32c;
use dewar_erasure::Codec;
use dewar_types::{BlobId, ByteRange, DiskId, Layout, PAGE_BYTES, Timestamp};
use proptest::prelude::*;

use super::page::read_slot;
use super::runs::{self, RunSpan, run_spans};
use super::*;

fn layout(k: u8, m: u8, unit: u32) -> Layout {
    Layout { k, m, unit }
}

fn range(start: u64, end: u64) -> ByteRange {
    ByteRange { start, end }
}

/// Layouts with small units, so that short blobs have many stripes.
fn any_layout() -> impl Strategy<Value = Layout> {
    (1u8..=16, 0u8..=4, 1u32..=4).prop_map(|(k, m, pages)| layout(k, m, pages * 4096))
}

/// A geometry of up to about three stripes, ends and boundaries often.
fn any_geometry() -> impl Strategy<Value = Geometry> {
    (any_layout(), 0u64..3, 0u64..17, -2i64..=2, any::<u32>()).prop_map(
        |(layout, stripes, units, near, inside)| {
            let base = stripes * layout.stripe_bytes() + units * u64::from(layout.unit);
            let len = match near {
                2 => base + u64::from(inside) % layout.stripe_bytes(),
                near => base.saturating_add_signed(near),
            };
            Geometry::new(layout, len).expect("in the format")
        },
    )
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Lengths add up, the pieces tile the blob, and each shard's pieces tile the shard.
    #[test]
    fn the_cut_is_a_bijection(geometry in any_geometry()) {
        let k = usize::from(geometry.layout().k);
        let whole = range(0, geometry.blob_len());
        let data: u64 = (0..k).map(|shard| geometry.shard_len(shard)).sum();
        prop_assert_eq!(data, geometry.blob_len());

        let mut blob_at = 0;
        let mut shard_at = BTreeMap::new();
        for piece in geometry.pieces(whole) {
            prop_assert_eq!(piece.blob_offset, blob_at);
            let at: &mut u64 = shard_at.entry(piece.shard).or_default();
            prop_assert_eq!(piece.shard_offset, *at);
            prop_assert!(piece.len > 0);
            for offset in [0, piece.len as u64 / 2, piece.len as u64 - 1] {
                let back = geometry.blob_offset(piece.shard, piece.shard_offset + offset);
                prop_assert_eq!(back, piece.blob_offset + offset);
            }
            blob_at += piece.len as u64;
            *at += piece.len as u64;
        }
        prop_assert_eq!(blob_at, geometry.blob_len());
        for shard in 0..k {
            prop_assert_eq!(shard_at.get(&shard).copied().unwrap_or(0), geometry.shard_len(shard));
        }
        for shard in 0..geometry.layout().shards() {
            let units = (0..geometry.stripes()).map(|stripe| geometry.unit_len(shard, stripe));
            prop_assert_eq!(units.sum::<usize>() as u64, geometry.shard_len(shard));
            prop_assert_eq!(geometry.unit_len(shard, geometry.stripes()), 0);
        }
        for stripe in 0..geometry.stripes() {
            let longest = (0..k).map(|shard| geometry.unit_len(shard, stripe)).max();
            for parity in k..geometry.layout().shards() {
                prop_assert_eq!(Some(geometry.unit_len(parity, stripe)), longest);
            }
        }
    }

    /// The pieces of a range are those of the whole, cut; and make up each shard's span.
    #[test]
    fn ranges_take_what_they_name(geometry in any_geometry(), a: u32, b: u32) {
        let cut = |n: u32| u64::from(n) % (geometry.blob_len() + 5000);
        let asked = range(cut(a).min(cut(b)), cut(a).max(cut(b)));
        let mut at = asked.start;
        let mut spans = BTreeMap::new();
        for piece in geometry.pieces(asked) {
            prop_assert_eq!(piece.blob_offset, at);
            prop_assert_eq!(geometry.blob_offset(piece.shard, piece.shard_offset), at);
            let in_unit = piece.shard_offset % u64::from(geometry.layout().unit);
            prop_assert!(in_unit + piece.len as u64 <= u64::from(geometry.layout().unit));
            let here = piece.shard_range();
            let span = spans.entry(piece.shard).or_insert(here.start..here.start);
            prop_assert_eq!(span.end, here.start, "a shard's pieces touch each other");
            span.end = here.end;
            at += piece.len as u64;
        }
        prop_assert_eq!(at, asked.end.min(geometry.blob_len()).max(asked.start));
        for shard in 0..usize::from(geometry.layout().k) {
            let span = geometry.shard_span(shard, asked);
            match spans.get(&shard) {
                Some(expected) => prop_assert_eq!(&span, expected),
                None => prop_assert!(span.is_empty()),
            }
        }
    }

    /// Run spans cover the pages of a range once, in order, inside one run each.
    #[test]
    fn run_spans_cover_the_pages(
        shard_len in prop_oneof![0u64..20_000, 4_190_000u64..4_200_000, 12_000_000u64..13_000_000],
        a: u32,
        b: u32,
    ) {
        let cut = |n: u32| u64::from(n) % (shard_len + 100);
        let (start, end) = (cut(a).min(cut(b)), cut(a).max(cut(b)));
        let spans: Vec<RunSpan> = run_spans(start..end, shard_len).collect();
        if start >= end.min(shard_len) {
            prop_assert!(spans.is_empty());
            return Ok(());
        }
        prop_assert_eq!(spans[0].first_page, start / PAGE_BYTES as u64);
        prop_assert!(spans.last().expect("not empty").shard_range().end >= end.min(shard_len));
        let mut page = spans[0].first_page;
        for span in &spans {
            prop_assert_eq!(span.first_page, page);
            for page in page..page + span.pages as u64 {
                let skipped = page - span.first_page;
                prop_assert_eq!(runs::page_at(page), span.data_at + skipped * PAGE_BYTES as u64);
                prop_assert_eq!(runs::slot_at(page), span.slots_at + skipped * SLOT_BYTES as u64);
            }
            page += span.pages as u64;
            let lengths = (span.first_page..page).map(|page| runs::page_len(page, shard_len));
            prop_assert_eq!(lengths.sum::<usize>(), span.data_len);
        }
        let touched = end.min(shard_len).div_ceil(PAGE_BYTES as u64) - start / PAGE_BYTES as u64;
        prop_assert_eq!(page - spans[0].first_page, touched, "no page too many");
    }
}

/// Writes the shard files of a blob.
fn write(blob: &[u8], geometry: Geometry, id: BlobId, generation: u32) -> Vec<Vec<u8>> {
    let layout = geometry.layout();
    let k = usize::from(layout.k);
    let codec = Codec::new(k, usize::from(layout.m)).expect("in the format");
    let mut shards = vec![Vec::new(); layout.shards()];
    for stripe in blob.chunks(layout.stripe_bytes() as usize) {
        let mut units: Vec<&[u8]> = stripe.chunks(layout.unit as usize).collect();
        units.resize(k, &[]);
        let mut parity = vec![vec![0; units[0].len()]; usize::from(layout.m)];
        let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
        codec.encode(&units, &mut outputs).expect("lengths fit");
        for (shard, unit) in shards
            .iter_mut()
            .zip(units.into_iter().chain(parity.iter().map(Vec::as_slice)))
        {
            shard.extend_from_slice(unit);
        }
    }
    shards
        .iter()
        .enumerate()
        .map(|(index, shard)| {
            assert_eq!(shard.len() as u64, geometry.shard_len(index));
            let header = ShardHeader {
                checksum: ChecksumKind::Crc32cMixed,
                kind: ShardKind::Object,
                sealed: true,
                blob: id,
                generation,
                shard: index as u8,
                layout,
                blob_len: Some(geometry.blob_len()),
                created: Timestamp(1),
                cluster: 2,
                pool: 3,
                disk: DiskId(4),
                owner: b"somebody".to_vec(),
            };
            let mut file = vec![0; geometry.file_len(index) as usize];
            file[..HEADER_BYTES].copy_from_slice(&header.encode().expect("in the format"));
            for span in run_spans(0..shard.len() as u64, shard.len() as u64) {
                let from = span.shard_range();
                let bytes = &shard[from.start as usize..from.end as usize];
                file[span.data_at as usize..][..span.data_len].copy_from_slice(bytes);
                let slots = &mut file[span.slots_at as usize..][..span.slots_len()];
                header.page_key().fill_slots(span.first_page, bytes, slots);
            }
            file
        })
        .collect()
}

/// Reads bytes of a shard from its file, whole pages, each verified.
fn read(
    file: &[u8],
    wanted: core::ops::Range<u64>,
    key: PageKey,
    shard_len: u64,
) -> Result<Vec<u8>, PageError> {
    let mut found = Vec::new();
    for span in run_spans(wanted.clone(), shard_len) {
        let bytes = &file[span.data_at as usize..][..span.data_len];
        let slots = &file[span.slots_at as usize..][..span.slots_len()];
        key.verify_pages(span.first_page, bytes, slots)?;
        let at = span.shard_range();
        let from = wanted.start.max(at.start) - at.start;
        let to = wanted.end.min(at.end) - at.start;
        found.extend_from_slice(&bytes[from as usize..to as usize]);
    }
    Ok(found)
}

/// Reads `asked` of the blob from the files that are left, rebuilding what is not.
fn read_degraded(
    files: &[Option<Vec<u8>>],
    asked: ByteRange,
    geometry: Geometry,
    id: BlobId,
    generation: u32,
) -> Vec<u8> {
    let layout = geometry.layout();
    let codec = Codec::new(usize::from(layout.k), usize::from(layout.m)).expect("in the format");
    let key = |shard: usize| PageKey::new(id, generation, shard as u8);
    let usable: ShardSet = (0..files.len())
        .filter(|&shard| files[shard].is_some())
        .collect();
    let mut found = Vec::new();
    for piece in geometry.pieces(asked) {
        if let Some(file) = &files[piece.shard] {
            let len = geometry.shard_len(piece.shard);
            found.extend(read(file, piece.shard_range(), key(piece.shard), len).expect("intact"));
            continue;
        }
        let read: Vec<(usize, Vec<u8>)> = geometry
            .sources(piece.shard_range(), usable)
            .map(|DecodeInput { shard, range }| {
                assert_ne!(shard, piece.shard);
                let bytes = match &files[shard] {
                    Some(file) => {
                        read(file, range, key(shard), geometry.shard_len(shard)).expect("intact")
                    }
                    None => {
                        assert!(range.is_empty(), "a lost shard is a source only of nothing");
                        Vec::new()
                    }
                };
                (shard, bytes)
            })
            .collect();
        let present: Vec<(usize, &[u8])> = read
            .iter()
            .map(|(s, bytes)| (*s, bytes.as_slice()))
            .collect();
        let mut unit = vec![0; piece.len];
        codec
            .reconstruct(&present, &[piece.shard], &mut [&mut unit])
            .expect("k are left");
        found.append(&mut unit);
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn a_blob_survives_the_loss_of_m_shards(geometry in any_geometry(), seed: u64, a: u32, b: u32) {
        let (id, generation) = (BlobId(seed), seed as u32 % 5);
        let blob = bytes(seed, geometry.blob_len() as usize);
        let files = write(&blob, geometry, id, generation);

        // Lose m, chosen by the seed.
        let mut left: Vec<Option<Vec<u8>>> = files.into_iter().map(Some).collect();
        let mut state = seed;
        while left.iter().filter(|file| file.is_none()).count() < usize::from(geometry.layout().m) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let shard = (state >> 33) as usize % left.len();
            left[shard] = None;
        }
        for file in left.iter().flatten() {
            let header = ShardHeader::decode(file).expect("written above");
            prop_assert_eq!(header.geometry(), Some(geometry));
        }
        let whole = range(0, geometry.blob_len());
        prop_assert!(read_degraded(&left, whole, geometry, id, generation) == blob);
        let cut = |n: u32| u64::from(n) % (geometry.blob_len() + 1);
        let part = range(cut(a).min(cut(b)), cut(a).max(cut(b)));
        let expected = &blob[part.start as usize..part.end as usize];
        prop_assert!(read_degraded(&left, part, geometry, id, generation) == expected);
    }

    /// A file with a hole in place of a page and its slot, a page of another generation, or two
    /// pages exchanged with their slots, is found out.
    #[test]
    fn misplaced_and_missing_pages_fail(seed: u64, zeros: bool, a in 0u64..9, b in 0u64..9) {
        let geometry = Geometry::new(layout(1, 0, 65_536), 9 * 4096).expect("in the format");
        let blob = if zeros { vec![0; 9 * 4096] } else { bytes(seed, 9 * 4096) };
        let id = BlobId(seed);
        let key = PageKey::new(id, 1, 0);
        let file = write(&blob, geometry, id, 1).remove(0);
        let place = |page: u64| (runs::slot_at(page) as usize, runs::page_at(page) as usize);
        let check = |file: &[u8]| read(file, 0..geometry.shard_len(0), key, geometry.shard_len(0));
        prop_assert_eq!(check(&file), Ok(blob.clone()));

        let ((slot_a, page_a), (slot_b, page_b)) = (place(a), place(b));
        let mut hole = file.clone();
        hole[slot_a..slot_a + 4].fill(0);
        hole[page_a..page_a + 4096].fill(0);
        prop_assert_eq!(check(&hole).expect_err("never written").page, a);

        let older = write(&blob, geometry, id, 0).remove(0);
        let mut mixed = file.clone();
        mixed[slot_a..slot_a + 4].copy_from_slice(&older[slot_a..slot_a + 4]);
        mixed[page_a..page_a + 4096].copy_from_slice(&older[page_a..page_a + 4096]);
        prop_assert_eq!(check(&mixed).expect_err("another generation").page, a);

        if a != b {
            let mut swapped = file.clone();
            for n in 0..4 {
                swapped.swap(slot_a + n, slot_b + n);
            }
            for n in 0..4096 {
                swapped.swap(page_a + n, page_b + n);
            }
            prop_assert_eq!(check(&swapped).expect_err("exchanged").page, a.min(b));
        }
    }
}

#[test]
fn a_shard_of_several_runs() {
    let geometry = Geometry::new(layout(2, 1, 4 << 20), 21_000_001).expect("in the format");
    let blob = bytes(3, 21_000_001);
    let mut files: Vec<Option<Vec<u8>>> = write(&blob, geometry, BlobId(9), 0)
        .into_iter()
        .map(Some)
        .collect();
    assert!(
        files
            .iter()
            .flatten()
            .all(|file| file.len() as u64 > 2 * runs::RUN_FILE_BYTES)
    );
    files[0] = None;
    let asked = range(4_190_000, 13_000_000);
    let found = read_degraded(&files, asked, geometry, BlobId(9), 0);
    assert!(found == blob[4_190_000..13_000_000]);
}

#[test]
fn layouts_outside_the_format_are_refused() {
    for bad in [
        layout(0, 1, 4096),
        layout(17, 1, 4096),
        layout(4, 5, 4096),
        layout(4, 2, 0),
        layout(4, 2, 4097),
        layout(4, 2, (4 << 20) + 4096),
    ] {
        let error = Geometry::new(bad, 1).expect_err("outside");
        assert!(matches!(error, GeometryError::Layout { .. }), "{error}");
    }
    let long = BLOB_BYTES_MAX + 1;
    assert_eq!(
        Geometry::new(layout(1, 0, 4096), long),
        Err(GeometryError::TooLong { len: long })
    );
}

#[test]
fn the_longest_blob_does_not_overflow() {
    for k in [1, 3, 16] {
        let geometry = Geometry::new(layout(k, 4, 4096), BLOB_BYTES_MAX).expect("in the format");
        let k = usize::from(k);
        assert_eq!(
            (0..k).map(|s| geometry.shard_len(s)).sum::<u64>(),
            BLOB_BYTES_MAX
        );
        let last = geometry
            .pieces(range(BLOB_BYTES_MAX - 1, u64::MAX))
            .collect::<Vec<_>>();
        assert_eq!(last.len(), 1);
        assert_eq!(last[0].shard_offset + 1, geometry.shard_len(last[0].shard));
        assert!(geometry.file_len(0) > geometry.shard_len(0));
        assert_eq!(geometry.pieces(range(u64::MAX, u64::MAX)).next(), None);
        assert!(
            geometry
                .shard_span(0, range(u64::MAX - 1, u64::MAX))
                .is_empty()
        );
    }
}

#[test]
fn sources_are_k_and_free_where_a_stripe_is_short() {
    // The last stripe of 4+2 has one full unit, one of 5 bytes, and two without bytes.
    let unit = 4096;
    let geometry = Geometry::new(layout(4, 2, unit), u64::from(4 * unit + unit + 5)).expect("fits");
    let usable = |lost: &[usize]| {
        lost.iter()
            .fold(ShardSet::first(6), |set, &s| set.without(s))
    };
    let last = u64::from(unit)..u64::from(2 * unit);
    let found: Vec<_> = geometry
        .sources(last.clone(), usable(&[0, 2, 3, 5]))
        .collect();
    let source = |shard, len| DecodeInput {
        shard,
        range: last.start..last.start + len,
    };
    assert_eq!(
        found,
        [source(1, 5), source(2, 0), source(3, 0), source(4, 4096)]
    );
    // In a full stripe the same loss leaves too few.
    assert_eq!(geometry.sources(0..100, usable(&[0, 2, 3, 5])).count(), 2);
    let found: Vec<usize> = geometry
        .sources(0..100, usable(&[1, 4]))
        .map(|s| s.shard)
        .collect();
    assert_eq!(found, [0, 2, 3, 5]);
}

/// A shard file that `testdata/format-v1/make.py` wrote from the documentation alone: every
/// release reads it.
#[test]
fn the_golden_shard_of_version_1_is_read() {
    let file = include_bytes!("../../testdata/format-v1/object-2+1.shard1");
    let header = ShardHeader::decode(file).expect("a header of version 1");
    let expected = ShardHeader {
        checksum: ChecksumKind::Crc32cMixed,
        kind: ShardKind::Object,
        sealed: true,
        blob: BlobId(0x0001_0000_0000_002a),
        generation: 7,
        shard: 1,
        layout: layout(2, 1, 4096),
        blob_len: Some(14_000),
        created: Timestamp(1_800_000_000_123_456_789),
        cluster: 0x1011_1213_1415_1617_1819_1a1b_1c1d_1e1f,
        pool: 0x2021_2223_2425_2627_2829_2a2b_2c2d_2e2f,
        disk: DiskId(0x3031_3233_3435_3637_3839_3a3b_3c3d_3e3f),
        owner: b"/atlas/data/x.root".to_vec(),
    };
    assert_eq!(header, expected);
    assert_eq!(
        expected.encode().expect("in the format")[..],
        file[..HEADER_BYTES]
    );
    let geometry = header.geometry().expect("sealed");
    assert_eq!(file.len() as u64, geometry.file_len(1));
    let blob: Vec<u8> = (0..14_000u32).map(|n| (n * 7 + n / 256) as u8).collect();
    let shard = read(
        file,
        0..geometry.shard_len(1),
        header.page_key(),
        geometry.shard_len(1),
    );
    let shard = shard.expect("intact pages");
    for piece in geometry
        .pieces(range(0, 14_000))
        .filter(|piece| piece.shard == 1)
    {
        let at = piece.shard_range();
        let stored = &shard[at.start as usize..at.end as usize];
        assert_eq!(stored, &blob[piece.blob_offset as usize..][..piece.len]);
    }
    let last = geometry.page_count(1) - 1;
    let slot = read_slot(&file[runs::slot_at(last) as usize..]);
    let length = runs::page_len(last, geometry.shard_len(1));
    assert_eq!(length, 1712);
    assert_eq!(
        header.page_key().crc(last, length, slot),
        crc32c(&shard[4096..])
    );
}
