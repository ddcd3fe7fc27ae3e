//! The date of a signed request.

use time::format_description::well_known::Rfc2822;
use time::{Date, Month, OffsetDateTime, Time};

/// A date in ISO 8601 basic form, as it was signed: `20130524T000000Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestDate {
    text: [u8; 16],
    secs: u64,
}

impl RequestDate {
    /// Parses `YYYYMMDDTHHMMSSZ`. `None` for anything else, and for dates before 1970.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text: [u8; 16] = text.as_bytes().try_into().ok()?;
        let [.., b'Z'] = text else { return None };
        if text[8] != b'T' {
            return None;
        }
        let number = |from: usize, to: usize| {
            text[from..to].iter().try_fold(0_u32, |n, b| {
                b.is_ascii_digit().then(|| n * 10 + u32::from(b - b'0'))
            })
        };
        let small = |from| number(from, from + 2).and_then(|n| u8::try_from(n).ok());
        let month = Month::try_from(small(4)?).ok()?;
        let year = i32::try_from(number(0, 4)?).ok()?;
        let date = Date::from_calendar_date(year, month, small(6)?).ok()?;
        let time = Time::from_hms(small(9)?, small(11)?, small(13)?).ok()?;
        let secs = OffsetDateTime::new_utc(date, time).unix_timestamp();
        Some(Self {
            text,
            secs: u64::try_from(secs).ok()?,
        })
    }

    /// Parses a Date header: the form above, or RFC 9110's.
    #[must_use]
    pub fn parse_header(text: &str) -> Option<Self> {
        Self::parse(text).or_else(|| {
            let when = OffsetDateTime::parse(text, &Rfc2822).ok()?;
            Some(Self::at(u64::try_from(when.unix_timestamp()).ok()?))
        })
    }

    /// The date at these seconds since the epoch, at most the last second of the year 9999.
    #[must_use]
    pub fn at(secs: u64) -> Self {
        const LAST: u64 = 253_402_300_799;
        let secs = secs.min(LAST);
        let when = i64::try_from(secs).ok();
        let when = when.and_then(|secs| OffsetDateTime::from_unix_timestamp(secs).ok());
        let when = when.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let text = format!(
            "{:04}{:02}{:02}T{:02}{:02}{:02}Z",
            when.year(),
            u8::from(when.month()),
            when.day(),
            when.hour(),
            when.minute(),
            when.second()
        );
        Self {
            text: text
                .as_bytes()
                .try_into()
                .expect("a year of four digits makes sixteen bytes"),
            secs,
        }
    }

    /// The date as it was signed.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // All sixteen bytes were checked to be ASCII.
        std::str::from_utf8(&self.text).unwrap_or_default()
    }

    /// The first eight characters, the day.
    #[must_use]
    pub fn day(&self) -> &str {
        self.as_str().get(..8).unwrap_or_default()
    }

    /// Seconds since the epoch.
    #[must_use]
    pub fn secs(&self) -> u64 {
        self.secs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_both_forms() {
        let date = RequestDate::parse("20130524T000000Z").expect("valid");
        assert_eq!(date.secs(), 1_369_353_600);
        assert_eq!(date.day(), "20130524");
        let same = RequestDate::parse_header("Fri, 24 May 2013 00:00:00 GMT").expect("valid");
        assert_eq!(same, date);
        for bad in [
            "",
            "20130524T000000",
            "20130532T000000Z",
            "20131324T000000Z",
            "20130524T240000Z",
            "2013-05-24T00:00Z",
            "+0130524T000000Z",
            "19690101T000000Z",
            "2013052é000000Z",
        ] {
            assert_eq!(RequestDate::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn dates_at_the_edges_of_the_calendar() {
        for (secs, text) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (951_868_800, "20000301T000000Z"),
            (1_709_210_096, "20240229T123456Z"),
            (4_107_542_400, "21000301T000000Z"),
            (253_402_300_799, "99991231T235959Z"),
            (u64::MAX, "99991231T235959Z"),
        ] {
            assert_eq!(RequestDate::at(secs).as_str(), text);
        }
        assert_eq!(RequestDate::at(951_782_400).day(), "20000229");
    }
}
