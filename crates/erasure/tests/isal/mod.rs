//! Intel's ISA-L, an independent implementation of the same code, loaded at run time. Used by
//! tests and by the program that wrote `testdata/isal-cauchy.txt`; Dewar itself never needs it.
#![allow(dead_code, unreachable_pub, reason = "each user takes a part of it")]
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uchar};

use libloading::Library;

type GenerateCauchy = unsafe extern "C" fn(*mut c_uchar, c_int, c_int);
type InitTables = unsafe extern "C" fn(c_int, c_int, *const c_uchar, *mut c_uchar);
type EncodeData = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    *const c_uchar,
    *const *const c_uchar,
    *const *mut c_uchar,
);

/// The functions in use; they are copied out of the library, which stays loaded.
pub struct Isal {
    generate_cauchy: GenerateCauchy,
    init_tables: InitTables,
    encode_data: EncodeData,
    _library: Library,
}

impl Isal {
    /// Loads the library that `DEWAR_ISAL` names, or `libisal.so.2` where the variable is unset.
    ///
    /// # Errors
    /// Says why it cannot be loaded.
    pub fn load() -> Result<Self, libloading::Error> {
        let name = std::env::var_os("DEWAR_ISAL").unwrap_or_else(|| "libisal.so.2".into());
        // SAFETY: libisal's initialisers do nothing, and the three signatures are those of
        // <isa-l/erasure_code.h> for version 2.
        unsafe {
            let library = Library::new(name)?;
            Ok(Self {
                generate_cauchy: *library.get(b"gf_gen_cauchy1_matrix\0")?,
                init_tables: *library.get(b"ec_init_tables\0")?,
                encode_data: *library.get(b"ec_encode_data\0")?,
                _library: library,
            })
        }
    }

    /// The whole (k+m) by k matrix, row by row.
    pub fn cauchy(&self, k: usize, m: usize) -> Vec<u8> {
        let mut matrix = vec![0; (k + m) * k];
        // SAFETY: the matrix has (k+m)*k bytes; the function's "m" is the number of all rows.
        unsafe { (self.generate_cauchy)(matrix.as_mut_ptr(), (k + m) as c_int, k as c_int) };
        matrix
    }

    /// The parity of data shards of any lengths, padded with zeros to the longest here.
    pub fn encode(&self, data: &[Vec<u8>], m: usize) -> Vec<Vec<u8>> {
        let k = data.len();
        let length = data.iter().map(Vec::len).max().unwrap_or(0);
        let padded: Vec<Vec<u8>> = data
            .iter()
            .map(|shard| {
                let mut shard = shard.clone();
                shard.resize(length, 0);
                shard
            })
            .collect();
        let mut parity = vec![vec![0; length]; m];
        let inputs: Vec<&[u8]> = padded.iter().map(Vec::as_slice).collect();
        let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
        self.encoder(k, m).encode(&inputs, &mut outputs);
        parity
    }

    /// Encoding with tables made beforehand.
    pub fn encoder(&self, k: usize, m: usize) -> Encoder<'_> {
        let mut tables = vec![0; 32 * k * m];
        if m > 0 {
            let matrix = self.cauchy(k, m);
            let rows = matrix[k * k..].as_ptr();
            // SAFETY: `rows` has m rows of k bytes, the tables have 32*k*m bytes.
            unsafe { (self.init_tables)(k as c_int, m as c_int, rows, tables.as_mut_ptr()) };
        }
        Encoder {
            isal: self,
            k,
            m,
            tables,
        }
    }
}

/// A k+m code with its tables.
pub struct Encoder<'a> {
    isal: &'a Isal,
    k: usize,
    m: usize,
    tables: Vec<u8>,
}

impl Encoder<'_> {
    /// Computes parity; all slices have one length.
    pub fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) {
        let Some(length) = parity.first().map(|slice| slice.len()) else {
            return;
        };
        assert!(data.len() == self.k && data.iter().all(|slice| slice.len() == length));
        assert!(parity.len() == self.m && parity.iter().all(|slice| slice.len() == length));
        let inputs: Vec<_> = data.iter().map(|slice| slice.as_ptr()).collect();
        let outputs: Vec<_> = parity.iter_mut().map(|slice| slice.as_mut_ptr()).collect();
        // SAFETY: k inputs and m outputs of `length` bytes, tables made for k and m.
        unsafe {
            (self.isal.encode_data)(
                length as c_int,
                self.k as c_int,
                self.m as c_int,
                self.tables.as_ptr(),
                inputs.as_ptr(),
                outputs.as_ptr(),
            );
        }
    }
}
