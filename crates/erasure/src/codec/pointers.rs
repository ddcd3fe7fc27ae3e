//! Conversion from a slice of outputs to a function that is compiled for their number.

/// Evaluates an expression with the outputs' pointers in an array of as many as there are, 1 to
/// [`crate::PARITY_SHARDS_MAX`]; `$none` when there are others.
///
/// A macro, since closures handed to functions that were compiled without the vector features may
/// not be inlined.
macro_rules! with_pointers {
    ($outputs:ident, |$pointers:ident| $sums:expr, $none:expr) => {
        match $outputs {
            [a] => {
                let $pointers = [a.as_mut_ptr()];
                $sums
            }
            [a, b] => {
                let $pointers = [a.as_mut_ptr(), b.as_mut_ptr()];
                $sums
            }
            [a, b, c] => {
                let $pointers = [a.as_mut_ptr(), b.as_mut_ptr(), c.as_mut_ptr()];
                $sums
            }
            [a, b, c, d] => {
                let $pointers = [
                    a.as_mut_ptr(),
                    b.as_mut_ptr(),
                    c.as_mut_ptr(),
                    d.as_mut_ptr(),
                ];
                $sums
            }
            _ => $none,
        }
    };
}

pub(super) use with_pointers;
