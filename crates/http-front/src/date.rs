//! Dates in headers and documents.

use dewar_types::Timestamp;
use time::OffsetDateTime;
use time::format_description::well_known::{Iso8601, Rfc2822};

/// A date in the form of RFC 9110: `Sun, 06 Nov 1994 08:49:37 GMT`.
#[must_use]
pub fn http_date(when: Timestamp) -> String {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let at = moment(when);
    format!(
        "{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
        DAYS[usize::from(at.weekday().number_days_from_monday()) % 7],
        at.day(),
        MONTHS[usize::from(u8::from(at.month()) - 1) % 12],
        at.year(),
        at.hour(),
        at.minute(),
        at.second()
    )
}

/// Parses a date header, in any of the three forms of RFC 9110 section 5.6.7. `None` for a
/// malformed date, which the RFC says to ignore.
#[must_use]
pub fn parse_http_date(text: &str) -> Option<Timestamp> {
    let read = |text: &str| OffsetDateTime::parse(text, &Rfc2822).ok();
    let at = read(text).or_else(|| read(&in_todays_form(text)?))?;
    u64::try_from(at.unix_timestamp())
        .ok()
        .map(Timestamp::from_secs)
}

/// Converts a date from one of the two obsolete forms to the current form.
fn in_todays_form(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    match *words.as_slice() {
        // Sun Nov  6 08:49:37 1994
        [_, month, day, time, year] => Some(format!("{day:0>2} {month} {year} {time} GMT")),
        // Sunday, 06-Nov-94 08:49:37 GMT
        [_, date, time, "GMT"] => {
            let (day, rest) = date.split_once('-')?;
            let (month, year) = rest.split_once('-')?;
            let year: u32 = year.parse().ok().filter(|_| year.len() == 2)?;
            let century = if year < 70 { 2000 } else { 1900 };
            Some(format!("{day} {month} {} {time} GMT", century + year))
        }
        _ => None,
    }
}

/// A date in the form of ISO 8601, with milliseconds: `2030-01-01T00:00:00.000Z`.
#[must_use]
pub fn iso_date(when: Timestamp) -> String {
    let at = moment(when);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.millisecond()
    )
}

/// Parses a date of ISO 8601 with a time and a zone. `None` for malformed text, or a date before
/// 1970.
#[must_use]
pub fn parse_iso_date(text: &str) -> Option<Timestamp> {
    let at = OffsetDateTime::parse(text, &Iso8601::DEFAULT).ok()?;
    u64::try_from(at.unix_timestamp_nanos()).ok().map(Timestamp)
}

/// A time in the calendar.
#[must_use]
pub fn moment(when: Timestamp) -> OffsetDateTime {
    // Every Timestamp lies before the year 2555, which the calendar holds.
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(when.0))
        .unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_go_both_ways() {
        let when = Timestamp::from_secs(784_111_777);
        assert_eq!(http_date(when), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(parse_http_date(&http_date(when)), Some(when));
        for old in ["Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(parse_http_date(old), Some(when), "{old}");
        }
        for bad in ["yesterday", "Sunday, 06-Nov-1994 08:49:37 GMT", "a b c d e"] {
            assert_eq!(parse_http_date(bad), None, "{bad}");
        }
        assert_eq!(http_date(Timestamp(u64::MAX)).len(), 29);
        assert_eq!(iso_date(when), "1994-11-06T08:49:37.000Z");
        assert_eq!(parse_iso_date(&iso_date(when)), Some(when));
        let offset = parse_iso_date("1994-11-06T09:49:37.250+01:00");
        assert_eq!(offset, Some(Timestamp(when.0 + 250_000_000)));
        for bad in ["", "1994", "1969-12-31T23:59:59Z", "tomorrow"] {
            assert_eq!(parse_iso_date(bad), None, "{bad}");
        }
    }
}
