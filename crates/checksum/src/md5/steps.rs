//! The 64 steps of RFC 1321, written once and shared by every kernel.
//!
//! A kernel passes a macro of its own that performs one step on its lanes (a `u32`, or a register
//! of 4, 8 or 16 of them). A kernel is therefore only its operations, and the table of constants
//! exists once.

/// Calls `$step!($context function, a, b, c, d, word index, constant, rotation)` for each of the 64
/// steps. `function` is one of the words `f g h i`, the four auxiliary functions of RFC 1321
/// section 3.4; `$context` is passed to the macro unchanged.
macro_rules! md5_steps {
    ($step:ident $context:tt, $a:ident, $b:ident, $c:ident, $d:ident) => {
        $step!($context f, $a, $b, $c, $d, 0, 0xd76a_a478_u32, 7);
        $step!($context f, $d, $a, $b, $c, 1, 0xe8c7_b756_u32, 12);
        $step!($context f, $c, $d, $a, $b, 2, 0x2420_70db_u32, 17);
        $step!($context f, $b, $c, $d, $a, 3, 0xc1bd_ceee_u32, 22);
        $step!($context f, $a, $b, $c, $d, 4, 0xf57c_0faf_u32, 7);
        $step!($context f, $d, $a, $b, $c, 5, 0x4787_c62a_u32, 12);
        $step!($context f, $c, $d, $a, $b, 6, 0xa830_4613_u32, 17);
        $step!($context f, $b, $c, $d, $a, 7, 0xfd46_9501_u32, 22);
        $step!($context f, $a, $b, $c, $d, 8, 0x6980_98d8_u32, 7);
        $step!($context f, $d, $a, $b, $c, 9, 0x8b44_f7af_u32, 12);
        $step!($context f, $c, $d, $a, $b, 10, 0xffff_5bb1_u32, 17);
        $step!($context f, $b, $c, $d, $a, 11, 0x895c_d7be_u32, 22);
        $step!($context f, $a, $b, $c, $d, 12, 0x6b90_1122_u32, 7);
        $step!($context f, $d, $a, $b, $c, 13, 0xfd98_7193_u32, 12);
        $step!($context f, $c, $d, $a, $b, 14, 0xa679_438e_u32, 17);
        $step!($context f, $b, $c, $d, $a, 15, 0x49b4_0821_u32, 22);
        $step!($context g, $a, $b, $c, $d, 1, 0xf61e_2562_u32, 5);
        $step!($context g, $d, $a, $b, $c, 6, 0xc040_b340_u32, 9);
        $step!($context g, $c, $d, $a, $b, 11, 0x265e_5a51_u32, 14);
        $step!($context g, $b, $c, $d, $a, 0, 0xe9b6_c7aa_u32, 20);
        $step!($context g, $a, $b, $c, $d, 5, 0xd62f_105d_u32, 5);
        $step!($context g, $d, $a, $b, $c, 10, 0x0244_1453_u32, 9);
        $step!($context g, $c, $d, $a, $b, 15, 0xd8a1_e681_u32, 14);
        $step!($context g, $b, $c, $d, $a, 4, 0xe7d3_fbc8_u32, 20);
        $step!($context g, $a, $b, $c, $d, 9, 0x21e1_cde6_u32, 5);
        $step!($context g, $d, $a, $b, $c, 14, 0xc337_07d6_u32, 9);
        $step!($context g, $c, $d, $a, $b, 3, 0xf4d5_0d87_u32, 14);
        $step!($context g, $b, $c, $d, $a, 8, 0x455a_14ed_u32, 20);
        $step!($context g, $a, $b, $c, $d, 13, 0xa9e3_e905_u32, 5);
        $step!($context g, $d, $a, $b, $c, 2, 0xfcef_a3f8_u32, 9);
        $step!($context g, $c, $d, $a, $b, 7, 0x676f_02d9_u32, 14);
        $step!($context g, $b, $c, $d, $a, 12, 0x8d2a_4c8a_u32, 20);
        $step!($context h, $a, $b, $c, $d, 5, 0xfffa_3942_u32, 4);
        $step!($context h, $d, $a, $b, $c, 8, 0x8771_f681_u32, 11);
        $step!($context h, $c, $d, $a, $b, 11, 0x6d9d_6122_u32, 16);
        $step!($context h, $b, $c, $d, $a, 14, 0xfde5_380c_u32, 23);
        $step!($context h, $a, $b, $c, $d, 1, 0xa4be_ea44_u32, 4);
        $step!($context h, $d, $a, $b, $c, 4, 0x4bde_cfa9_u32, 11);
        $step!($context h, $c, $d, $a, $b, 7, 0xf6bb_4b60_u32, 16);
        $step!($context h, $b, $c, $d, $a, 10, 0xbebf_bc70_u32, 23);
        $step!($context h, $a, $b, $c, $d, 13, 0x289b_7ec6_u32, 4);
        $step!($context h, $d, $a, $b, $c, 0, 0xeaa1_27fa_u32, 11);
        $step!($context h, $c, $d, $a, $b, 3, 0xd4ef_3085_u32, 16);
        $step!($context h, $b, $c, $d, $a, 6, 0x0488_1d05_u32, 23);
        $step!($context h, $a, $b, $c, $d, 9, 0xd9d4_d039_u32, 4);
        $step!($context h, $d, $a, $b, $c, 12, 0xe6db_99e5_u32, 11);
        $step!($context h, $c, $d, $a, $b, 15, 0x1fa2_7cf8_u32, 16);
        $step!($context h, $b, $c, $d, $a, 2, 0xc4ac_5665_u32, 23);
        $step!($context i, $a, $b, $c, $d, 0, 0xf429_2244_u32, 6);
        $step!($context i, $d, $a, $b, $c, 7, 0x432a_ff97_u32, 10);
        $step!($context i, $c, $d, $a, $b, 14, 0xab94_23a7_u32, 15);
        $step!($context i, $b, $c, $d, $a, 5, 0xfc93_a039_u32, 21);
        $step!($context i, $a, $b, $c, $d, 12, 0x655b_59c3_u32, 6);
        $step!($context i, $d, $a, $b, $c, 3, 0x8f0c_cc92_u32, 10);
        $step!($context i, $c, $d, $a, $b, 10, 0xffef_f47d_u32, 15);
        $step!($context i, $b, $c, $d, $a, 1, 0x8584_5dd1_u32, 21);
        $step!($context i, $a, $b, $c, $d, 8, 0x6fa8_7e4f_u32, 6);
        $step!($context i, $d, $a, $b, $c, 15, 0xfe2c_e6e0_u32, 10);
        $step!($context i, $c, $d, $a, $b, 6, 0xa301_4314_u32, 15);
        $step!($context i, $b, $c, $d, $a, 13, 0x4e08_11a1_u32, 21);
        $step!($context i, $a, $b, $c, $d, 4, 0xf753_7e82_u32, 6);
        $step!($context i, $d, $a, $b, $c, 11, 0xbd3a_f235_u32, 10);
        $step!($context i, $c, $d, $a, $b, 2, 0x2ad7_d2bb_u32, 15);
        $step!($context i, $b, $c, $d, $a, 9, 0xeb86_d391_u32, 21);
    };
}

/// Pins a sum of early known values. Otherwise the compiler reorders the additions and puts the
/// constant after the auxiliary function, on the one chain that limits the speed (15 % of a single
/// stream's time).
macro_rules! early {
    ($register:ident, $sum:ident) => {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        // SAFETY: no instruction at all; the operand passes through.
        #[allow(asm_sub_register)]
        unsafe {
            core::arch::asm!("/* {0} */", inout($register) $sum, options(pure, nomem, nostack, preserves_flags));
        }
    };
}

pub(super) use {early, md5_steps};
