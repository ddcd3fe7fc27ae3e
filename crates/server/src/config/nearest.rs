//! "Did you mean …": the known name that takes the fewest edits.

/// Edits between two names: insert, delete, replace, or swap of neighbours (optimal string
/// alignment). Quadratic in the lengths; long input is cut, since no known name is long.
fn distance(a: &str, b: &str) -> usize {
    const LENGTH_MAX: usize = 80;
    let a: Vec<char> = a.chars().take(LENGTH_MAX).collect();
    let b: Vec<char> = b.chars().take(LENGTH_MAX).collect();
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

/// Letters per allowed mistake. A name with more mistakes is not a typing error of another one.
const LETTERS_PER_MISTAKE: usize = 3;

/// The nearest of `known`, the first of equals; `None` when none is near enough for a typing error.
#[must_use]
pub fn nearest(name: &str, known: impl IntoIterator<Item = String>) -> Option<String> {
    let name = name.to_lowercase();
    let mistakes_max = (name.chars().count() / LETTERS_PER_MISTAKE).max(1);
    known
        .into_iter()
        .map(|candidate| (distance(&name, &candidate.to_lowercase()), candidate))
        .filter(|(mistakes, _)| *mistakes <= mistakes_max)
        .min_by_key(|(mistakes, _)| *mistakes)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits_and_swaps() {
        assert_eq!(distance("listen", "listen"), 0);
        assert_eq!(distance("lisetn", "listen"), 1, "a swap is one edit");
        assert_eq!(distance("lisen", "listen"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn finds_the_nearest() {
        let known = || ["region", "listen", "domains"].map(str::to_owned);
        assert_eq!(nearest("Lissten", known()).as_deref(), Some("listen"));
        assert_eq!(nearest("x", []), None);
        let commands = || ["completions", "logout", "share", "status"].map(str::to_owned);
        for stranger in ["cp", "ls", "mount", "useradd", "nope"] {
            assert_eq!(nearest(stranger, commands()), None, "{stranger}");
        }
        assert_eq!(nearest("statsu", commands()).as_deref(), Some("status"));
    }

    proptest::proptest! {
        #[test]
        fn is_symmetric_and_zero_only_for_equals(a in "[a-d]{0,8}", b in "[a-d]{0,8}") {
            proptest::prop_assert_eq!(distance(&a, &b), distance(&b, &a));
            proptest::prop_assert_eq!(distance(&a, &b) == 0, a == b);
        }
    }
}
