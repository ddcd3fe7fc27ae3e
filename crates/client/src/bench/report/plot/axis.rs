//! Scales and the places of their ticks.

/// Maps values to a stretch of pixels.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    from: f64,
    to: f64,
    log: bool,
    /// The ticks, ascending.
    pub(super) ticks: Vec<f64>,
}

impl Axis {
    /// From 0 to at least `max`, with three to six round ticks.
    pub(super) fn linear(max: f64) -> Self {
        let max = if max > 0.0 && max.is_finite() {
            max
        } else {
            1.0
        };
        let rough = max / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(10.0 * power);
        let count = (max / step * 0.999).ceil();
        let ticks = (0..=count as u32).map(|i| f64::from(i) * step).collect();
        Self {
            from: 0.0,
            to: count * step,
            log: false,
            ticks,
        }
    }

    /// Powers of ten around `min..max`, which must be positive; where they span less than two
    /// decades also 2 and 5 times the powers.
    pub(super) fn log(min: f64, max: f64) -> Self {
        let (min, max) = if min > 0.0 && max >= min {
            (min, max)
        } else {
            (1.0, 10.0)
        };
        let decades = max.log10() - min.log10();
        let factors: &[f64] = if decades < 2.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let lowest = min.log10().floor() as i32;
        let highest = max.log10().ceil() as i32;
        let all: Vec<f64> = (lowest..=highest)
            .flat_map(|power| {
                factors
                    .iter()
                    .map(move |factor| factor * 10_f64.powi(power))
            })
            .collect();
        let from = all
            .iter()
            .copied()
            .rev()
            .find(|tick| *tick <= min * 1.000_1)
            .unwrap_or(min);
        let to = all
            .iter()
            .copied()
            .find(|tick| *tick >= max * 0.999_9)
            .unwrap_or(max);
        let to = if to > from { to } else { from * 10.0 };
        let ticks = all
            .into_iter()
            .filter(|tick| (from..=to).contains(tick))
            .collect();
        Self {
            from,
            to,
            log: true,
            ticks,
        }
    }

    /// The position of a value between the ends, 0 to 1.
    pub(super) fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        share.clamp(0.0, 1.0)
    }
}

/// A tick's label: no more digits than needed.
pub(super) fn label(value: f64) -> String {
    if value >= 1e6 {
        format!("{}M", trim(value / 1e6))
    } else if value >= 1e4 {
        format!("{}k", trim(value / 1e3))
    } else {
        trim(value)
    }
}

fn trim(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_cover() {
        for (max, ticks) in [
            (1.0, vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
            (9.4, vec![0.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
            (1_310.0, vec![0.0, 500.0, 1_000.0, 1_500.0]),
        ] {
            let axis = Axis::linear(max);
            let close = axis
                .ticks
                .iter()
                .zip(&ticks)
                .all(|(a, b)| (a - b).abs() < 1e-9);
            assert!(
                close && axis.ticks.len() == ticks.len(),
                "{max}: {:?}",
                axis.ticks
            );
            assert!(axis.share(max) > 0.8 && axis.share(max) <= 1.0);
        }
        for max in [0.0, f64::NAN, -1.0] {
            assert!(Axis::linear(max).share(0.5) > 0.0);
        }
    }

    #[test]
    fn log_ticks_cover() {
        let axis = Axis::log(0.23, 44.0);
        assert_eq!(
            axis.ticks.first().map(|t| label(*t)).as_deref(),
            Some("0.1")
        );
        assert_eq!(axis.ticks.last().map(|t| label(*t)).as_deref(), Some("100"));
        assert!((axis.share(1.0) - 1.0 / 3.0).abs() < 1e-9);
        let narrow = Axis::log(2.1, 4.9);
        let labels: Vec<_> = narrow.ticks.iter().map(|tick| label(*tick)).collect();
        assert_eq!(labels, ["2", "5"]);
        assert!(Axis::log(3.0, 3.0).share(3.0) < 1.0);
        assert!(Axis::log(0.0, 0.0).share(5.0).is_finite());
    }

    #[test]
    fn labels_are_short() {
        let told: Vec<_> = [0.0, 0.25, 500.0, 20_000.0, 1.5e6]
            .into_iter()
            .map(label)
            .collect();
        assert_eq!(told, ["0", "0.25", "500", "20k", "1.5M"]);
    }
}
