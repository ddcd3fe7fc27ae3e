use super::*;
use base64::Engine as _;
use proptest::prelude::*;

/// The definition, bit by bit.
fn by_definition(data: &[u8], reflected: u64, width: u32) -> u64 {
    let ones = u64::MAX >> (64 - width);
    let mut crc = ones;
    for byte in data {
        crc ^= u64::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ reflected
            } else {
                crc >> 1
            };
        }
    }
    crc ^ ones
}

fn expected(data: &[u8]) -> (u32, u32, u64) {
    (
        by_definition(data, 0xedb8_8320, 32) as u32,
        by_definition(data, 0x82f6_3b78, 32) as u32,
        by_definition(data, 0x9a6c_9329_ac4b_c9b5, 64),
    )
}

#[test]
fn check_values_of_the_catalogue() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(crc64nvme(b"123456789"), 0xae8b_1486_0a79_9888);
}

/// RFC 3720, appendix B.4.
#[test]
fn iscsi_examples() {
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    let rising: Vec<u8> = (0..32).collect();
    assert_eq!(crc32c(&rising), 0x46dd_794e);
}

#[test]
fn nvme_of_a_kibibyte_of_a() {
    let crc = crc64nvme(&[b'A'; 1024]);
    let text = base64::engine::general_purpose::STANDARD.encode(crc.to_be_bytes());
    assert_eq!(text, "Qeh8oXvGiSo=");
}

#[test]
fn nothing_is_zero_and_combines_to_the_same() {
    assert_eq!((crc32(b""), crc32c(b""), crc64nvme(b"")), (0, 0, 0));
    assert_eq!(crc32c_combine(0x1234_5678, 0, 0), 0x1234_5678);
    assert_eq!(crc32c_combine(0, 0x1234_5678, 77), 0x1234_5678);
}

/// Every length up to a few pages, at every alignment that matters to the kernels.
#[test]
fn all_short_lengths() {
    let data: Vec<u8> = (0..9000u32).map(|i| ((i * i) >> 3) as u8).collect();
    for length in (0..600).chain([4095, 4096, 4097, 8192, 8999]) {
        for start in [0, 1, 7, 8, 63] {
            let data = &data[start..data.len().min(start + length)];
            let found = (crc32(data), crc32c(data), crc64nvme(data));
            assert_eq!(found, expected(data), "{start} {length}");
        }
    }
}

/// Long lengths by halving: zeros cost nothing to combine.
#[test]
fn combination_over_terabytes() {
    let zeros = vec![0; 1 << 20];
    let (mut a, mut c, mut n) = (crc32(&zeros), crc32c(&zeros), crc64nvme(&zeros));
    let mut by_one = (a, c, n);
    let mut length = 1u64 << 20;
    for _ in 0..20 {
        (a, c, n) = (
            crc32_combine(a, a, length),
            crc32c_combine(c, c, length),
            crc64nvme_combine(n, n, length),
        );
        length *= 2;
    }
    // The same terabyte, appended in pieces of 64 GiB that were made from pieces of 1 GiB.
    let unit = by_one;
    let pieces = |one: (u32, u32, u64), length: u64, count: u64| {
        (1..count).fold(one, |sum, _| {
            (
                crc32_combine(sum.0, one.0, length),
                crc32c_combine(sum.1, one.1, length),
                crc64nvme_combine(sum.2, one.2, length),
            )
        })
    };
    by_one = pieces(unit, 1 << 20, 1024);
    by_one = pieces(by_one, 1 << 30, 64);
    by_one = pieces(by_one, 1 << 36, 16);
    assert_eq!(by_one, (a, c, n));
}

proptest! {
    #[test]
    fn parts_combine(
        a in proptest::collection::vec(any::<u8>(), 0..3000),
        b in proptest::collection::vec(any::<u8>(), 0..3000),
    ) {
        let whole = expected(&[a.as_slice(), &b].concat());
        let length = b.len() as u64;
        prop_assert_eq!(crc32_combine(crc32(&a), crc32(&b), length), whole.0);
        prop_assert_eq!(crc32c_combine(crc32c(&a), crc32c(&b), length), whole.1);
        prop_assert_eq!(crc64nvme_combine(crc64nvme(&a), crc64nvme(&b), length), whole.2);
    }

    #[test]
    fn streams_and_pages(
        head in proptest::collection::vec(any::<u8>(), 0..300),
        seed in any::<u8>(),
        pages in 0usize..4,
        tail in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let page: Vec<u8> = (0..4096u32).map(|i| ((i * 31) >> 2) as u8 ^ seed).collect();
        let mut stream = Crc32c::new();
        let (mut ieee, mut nvme) = (Crc32::default(), Crc64Nvme::default());
        let mut whole = head.clone();
        stream.update(&head);
        for _ in 0..pages {
            stream.append(crc32c(&page), 4096);
            whole.extend_from_slice(&page);
        }
        stream.update(&tail[..tail.len() / 2]);
        stream = Crc32c::resume(stream.value());
        stream.append(crc32c(&tail[tail.len() / 2..]), (tail.len() - tail.len() / 2) as u64);
        whole.extend_from_slice(&tail);
        for piece in whole.chunks(333) {
            ieee.update(piece);
            nvme.update(piece);
        }
        prop_assert_eq!((ieee.value(), stream.value(), nvme.value()), expected(&whole));
    }
}
