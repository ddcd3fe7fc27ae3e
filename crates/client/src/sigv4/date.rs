//! The two date strings of a signature.

/// A point in time in the form for signatures: `20130524T000000Z`, whose first eight digits are the
/// day of the credential scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmzDate {
    unix_s: u64,
    text: String,
}

impl AmzDate {
    /// From seconds since 1970 (UTC).
    #[must_use]
    pub fn new(unix_s: u64) -> Self {
        let (year, month, day) = civil_from_days(unix_s / 86_400);
        let second = unix_s % 86_400;
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        let text = format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z");
        Self { unix_s, text }
    }

    /// Seconds since 1970.
    #[must_use]
    pub fn unix_s(&self) -> u64 {
        self.unix_s
    }

    /// `YYYYMMDDTHHMMSSZ`.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// `YYYYMMDD`.
    #[must_use]
    pub fn day(&self) -> &str {
        &self.text[..8]
    }
}

/// Year, month and day of the proleptic Gregorian calendar for a count of days since 1970-01-01.
/// Counts in 400-year eras that begin on 1 March, so that the leap day is a year's last.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}
