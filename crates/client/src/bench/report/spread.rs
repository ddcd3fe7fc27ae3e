//! Statistics over several runs of the same step.

/// The median of some figures and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// Of those figures that exist; `None` if none does.
    pub(super) fn of(figures: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let mut figures: Vec<f64> = figures.into_iter().flatten().collect();
        figures.sort_by(f64::total_cmp);
        let (min, max) = (*figures.first()?, *figures.last()?);
        let half = figures.len() / 2;
        let median = if figures.len() % 2 == 1 {
            figures[half]
        } else {
            f64::midpoint(figures[half - 1], figures[half])
        };
        Some(Self { median, min, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let of = |figures: &[f64]| Spread::of(figures.iter().copied().map(Some));
        assert_eq!(of(&[]), None);
        assert_eq!(
            of(&[3.0, 1.0, 2.0]),
            Some(Spread {
                median: 2.0,
                min: 1.0,
                max: 3.0
            })
        );
        assert_eq!(of(&[4.0, 1.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of([None, Some(1.0), None]).unwrap().max, 1.0);
    }
}
