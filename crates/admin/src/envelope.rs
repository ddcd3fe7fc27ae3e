//! The JSON around requests and replies. A value with the name `quota.show` is
//! `{"quota":{"show":VALUE}}`, and a value without a name stands alone.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde::{Deserialize, de::DeserializeOwned};

/// Writes a value with its name.
pub(crate) fn to_envelope(name: &str, value: &impl Serialize) -> Vec<u8> {
    let envelope = Envelope { name, value };
    serde_json::to_vec(&envelope).expect("requests and replies hold nothing that JSON cannot say")
}

/// Reads a value with this name.
pub(crate) fn from_envelope<T: DeserializeOwned>(name: &str, json: &[u8]) -> serde_json::Result<T> {
    let mut input = serde_json::Deserializer::from_slice(json);
    let opened = ValueNamed(name, PhantomData).deserialize(&mut input)?;
    input.end()?;
    Ok(opened)
}

/// Reads the name of a value: the first one for which `is_name` holds.
pub(crate) fn name_in(json: &[u8], is_name: &dyn Fn(&str) -> bool) -> serde_json::Result<String> {
    let mut input = serde_json::Deserializer::from_slice(json);
    NameFinder {
        outer: String::new(),
        is_name,
    }
    .deserialize(&mut input)
}

/// The outermost part of a name, and the rest.
fn split(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or((name, ""))
}

struct Envelope<'a, T> {
    name: &'a str,
    value: &'a T,
}

impl<T: Serialize> Serialize for Envelope<'_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.name.is_empty() {
            return self.value.serialize(to);
        }
        let (outer, name) = split(self.name);
        let inner = Envelope {
            name,
            value: self.value,
        };
        let mut map = to.serialize_map(Some(1))?;
        map.serialize_entry(outer, &inner)?;
        map.end()
    }
}

struct ValueNamed<'a, T>(&'a str, PhantomData<T>);

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for ValueNamed<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
        match self.0.is_empty() {
            true => T::deserialize(from),
            false => from.deserialize_map(self),
        }
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ValueNamed<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with the one entry {:?}", self.0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let (outer, name) = split(self.0);
        if map.next_key::<String>()?.as_deref() != Some(outer) {
            return Err(A::Error::custom("another name"));
        }
        let value = map.next_value_seed(ValueNamed(name, PhantomData))?;
        match map.next_key::<IgnoredAny>()? {
            None => Ok(value),
            Some(_) => Err(A::Error::custom("a second entry")),
        }
    }
}

struct NameFinder<'a> {
    outer: String,
    is_name: &'a dyn Fn(&str) -> bool,
}

impl<'de> DeserializeSeed<'de> for NameFinder<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for NameFinder<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the name of a command")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
        let Some(mut name) = map.next_key::<String>()? else {
            return Err(A::Error::custom("no name"));
        };
        if !self.outer.is_empty() {
            name = format!("{}.{name}", self.outer);
        }
        match (self.is_name)(&name) {
            true => map.next_value::<IgnoredAny>().map(|_| name),
            false => map.next_value_seed(NameFinder {
                outer: name,
                is_name: self.is_name,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_exactly_its_name() {
        let json = to_envelope("a.b", &7);
        assert_eq!(json, br#"{"a":{"b":7}}"#);
        assert_eq!(from_envelope::<u8>("a.b", &json).expect("read"), 7);
        assert_eq!(to_envelope("", &7), b"7");
        assert_eq!(from_envelope::<u8>("", b"7").expect("read"), 7);
        for wrong in [
            "7",
            "{}",
            r#"{"a":7}"#,
            r#"{"a":{"c":7}}"#,
            r#"{"a":{"b":7,"c":7}}"#,
            r#"{"a":{"b":7},"a":{"b":7}}"#,
            r#"{"a":{"b":7}} 1"#,
        ] {
            from_envelope::<u8>("a.b", wrong.as_bytes()).expect_err(wrong);
        }
    }

    #[test]
    fn the_name_is_the_first_that_is_known() {
        let find = |json: &str| name_in(json.as_bytes(), &|name| ["a", "b.c"].contains(&name));
        assert_eq!(find(r#"{"a":{"b":1}}"#).expect("found"), "a");
        assert_eq!(find(r#"{"b":{"c":[]}}"#).expect("found"), "b.c");
        for unknown in ["", "1", "{}", r#"{"b":1}"#, r#"{"b":{"a":1}}"#, r#""a""#] {
            find(unknown).expect_err(unknown);
        }
    }
}
