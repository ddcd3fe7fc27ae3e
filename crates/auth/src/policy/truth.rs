//! Three-valued logic (Kleene): a test that depends on a claim which the caller's session does not
//! contain is neither true nor false.

/// The outcome of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    /// It fails for every value of the missing claim.
    No,
    /// It depends on what the missing claim says.
    Unknown,
    /// It holds for every value of the missing claim.
    Yes,
}

impl Truth {
    /// The opposite outcome, if `negated`.
    pub(crate) fn negated_if(self, negated: bool) -> Self {
        match self {
            Self::No if negated => Self::Yes,
            Self::Yes if negated => Self::No,
            same => same,
        }
    }

    /// Whether any test holds; no test does not.
    pub(crate) fn any(tests: impl IntoIterator<Item = Self>) -> Self {
        let mut best = Self::No;
        for test in tests {
            match test {
                Self::Yes => return Self::Yes,
                Self::Unknown => best = Self::Unknown,
                Self::No => {}
            }
        }
        best
    }

    /// Whether every test holds; no test does.
    pub(crate) fn all(tests: impl IntoIterator<Item = Self>) -> Self {
        let mut worst = Self::Yes;
        for test in tests {
            match test {
                Self::No => return Self::No,
                Self::Unknown => worst = Self::Unknown,
                Self::Yes => {}
            }
        }
        worst
    }

    /// Decides. A result that depends on a missing claim counts as `presumed`.
    pub(crate) fn decide(self, presumed: bool) -> bool {
        match self {
            Self::No => false,
            Self::Unknown => presumed,
            Self::Yes => true,
        }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

#[cfg(test)]
mod tests {
    use super::Truth::{self, No, Unknown, Yes};

    #[test]
    fn what_is_not_known_decides_only_where_nothing_else_does() {
        assert_eq!(Truth::any([No, Unknown, Yes]), Yes);
        assert_eq!(Truth::any([No, Unknown]), Unknown);
        assert_eq!(Truth::any([]), No);
        assert_eq!(Truth::all([Yes, Unknown, No]), No);
        assert_eq!(Truth::all([Yes, Unknown]), Unknown);
        assert_eq!(Truth::all([]), Yes);
        assert_eq!(Unknown.negated_if(true), Unknown);
        assert_eq!(Yes.negated_if(true), No);
        assert!(Unknown.decide(true) && !Unknown.decide(false));
    }
}
