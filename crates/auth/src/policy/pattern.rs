//! Text with `*`, `?` and policy variables, matched in time linear in the text.
//!
//! A pattern is cut at its stars. The pieces between stars are searched from left to right, and the
//! first match of each is taken. This is always correct, because only the order matters. A piece
//! without `?` is found by the standard library's search, which never backtracks. A piece with `?`
//! is found by shift-and, at one step per character and per 64 characters of the piece. So no
//! pattern makes the time of a request grow with a product of lengths.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::condition::Key;

/// The approximate cost of an allocation, beside its bytes.
pub(crate) const ALLOCATION_BYTES: usize = 16;
use super::truth::Truth;

/// A piece of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// `*`
    Many,
    /// `?`
    One,
    /// `${key}` or `${key, 'default'}`
    Variable {
        key: Key,
        default: Option<String>,
    },
}

/// A variable names a claim that the caller's session does not carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OmittedClaim;

/// The values of variables; `None` where the request has no value.
pub(crate) type Variables<'a> = &'a dyn Fn(&Key) -> Result<Option<String>, OmittedClaim>;

/// For patterns in which no variable can stand.
pub(crate) const NO_VARIABLES: Variables<'static> = &|_| Ok(None);

/// A pattern, ready to be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    shape: Shape,
    /// Whether to ignore the case of ASCII letters. Other letters are compared as they are.
    fold: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    Any,
    Exact(Box<str>),
    Prefix(Box<str>),
    Glob(Glob),
    /// With variables: each request compiles it again.
    Template(Box<[Piece]>),
}

/// How a text is read as a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PatternSyntax {
    /// Whether `*` and `?` are wildcards.
    pub(crate) wildcards: bool,
    /// Whether `${…}` is a variable.
    pub(crate) variables: bool,
    /// Whether case does not matter.
    pub(crate) fold: bool,
}

/// The error in a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadVariable(pub(crate) String);

impl Pattern {
    /// Compiles a text.
    ///
    /// # Errors
    /// When a variable is not closed, or has an unknown name.
    pub(crate) fn new(text: &str, reading: PatternSyntax) -> Result<Self, BadVariable> {
        let pieces = pieces(text, reading)?;
        let fold = reading.fold;
        let template = pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Variable { .. }));
        let shape = if template {
            Shape::Template(pieces.into())
        } else {
            shape(pieces, fold)
        };
        Ok(Self { shape, fold })
    }

    /// A pattern that matches only this text.
    pub(crate) fn exact(text: &str) -> Self {
        Self {
            shape: Shape::Exact(text.into()),
            fold: false,
        }
    }

    /// Heap memory in bytes, without the object itself.
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.shape {
            Shape::Any => 0,
            Shape::Exact(text) | Shape::Prefix(text) => text.len() + ALLOCATION_BYTES,
            Shape::Glob(glob) => {
                let segments = glob.segments.iter().map(|segment| match segment {
                    Segment::Plain(text) => text.len() + ALLOCATION_BYTES,
                    Segment::WildcardPiece(masked) => masked.memory_bytes(),
                });
                size_of_val(&*glob.segments) + segments.sum::<usize>() + ALLOCATION_BYTES
            }
            Shape::Template(pieces) => {
                let texts = pieces.iter().map(|piece| match piece {
                    Piece::Text(text) => text.capacity() + ALLOCATION_BYTES,
                    Piece::Many | Piece::One => 0,
                    Piece::Variable { key, default } => {
                        let default = default.as_ref().map_or(0, String::capacity);
                        key.memory_bytes() + default + ALLOCATION_BYTES
                    }
                });
                size_of_val(&**pieces) + texts.sum::<usize>() + ALLOCATION_BYTES
            }
        }
    }

    /// Whether it is `*`.
    pub(crate) fn is_any(&self) -> bool {
        self.shape == Shape::Any
    }

    /// The text of a pattern without wildcards and variables.
    pub(crate) fn as_exact(&self) -> Option<&str> {
        match &self.shape {
            Shape::Exact(text) => Some(text),
            _ => None,
        }
    }

    /// The common prefix of all matching texts, in whole components: up to the last slash before a
    /// wildcard or variable, or the whole text if it has none.
    pub(crate) fn start(&self) -> &str {
        let open = match &self.shape {
            Shape::Any => "",
            Shape::Exact(text) => return text,
            Shape::Prefix(text) => text,
            Shape::Glob(glob) => glob.literal_start(),
            Shape::Template(pieces) => match pieces.first() {
                Some(Piece::Text(text)) if !self.fold => text,
                _ => "",
            },
        };
        open.rfind('/').map_or("", |at| &open[..=at])
    }

    /// Whether `text` matches. A variable without a value in the request matches nothing. A
    /// variable for a claim that was not kept may match any text.
    pub(crate) fn matches(&self, text: &str, variables: Variables<'_>) -> Truth {
        let folded = if self.fold && text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(text.to_ascii_lowercase())
        } else {
            Cow::Borrowed(text)
        };
        let holds = match &self.shape {
            Shape::Any => true,
            Shape::Exact(exact) => **exact == *folded,
            Shape::Prefix(prefix) => folded.starts_with(&**prefix),
            Shape::Glob(glob) => glob.matches(&folded),
            Shape::Template(template) => {
                let (pieces, open) = match filled(template, variables) {
                    Ok(None) => return Truth::No,
                    Ok(Some(pieces)) => (pieces, false),
                    Err(OmittedClaim) => (opened(template), true),
                };
                let pattern = Self {
                    shape: shape(pieces, self.fold),
                    fold: false,
                };
                return match pattern.matches(&folded, NO_VARIABLES) {
                    Truth::Yes if open => Truth::Unknown,
                    truth => truth,
                };
            }
        };
        holds.into()
    }

    /// The same for a pattern in which no variable can stand.
    pub(crate) fn matches_text(&self, text: &str) -> bool {
        self.matches(text, NO_VARIABLES) == Truth::Yes
    }

    /// The keys of its variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &Key> {
        let pieces = match &self.shape {
            Shape::Template(pieces) => &**pieces,
            _ => &[],
        };
        pieces.iter().filter_map(|piece| match piece {
            Piece::Variable { key, .. } => Some(key),
            _ => None,
        })
    }

    /// Whether some text that begins with `prefix` can match, or `prefix` itself without its last
    /// character, which is a separator. Variables count as `*`.
    pub(crate) fn may_begin_with(&self, prefix: &str) -> bool {
        let own = prefix.get(..prefix.len().saturating_sub(1)).unwrap_or("");
        let pieces = match &self.shape {
            Shape::Any => return true,
            Shape::Exact(text) => return &**text == own || text.starts_with(prefix),
            Shape::Prefix(text) => return own.starts_with(&**text) || text.starts_with(prefix),
            Shape::Glob(glob) => return glob.may_begin_with(prefix, own),
            Shape::Template(pieces) => opened(pieces),
        };
        let pattern = Self {
            shape: shape(pieces, self.fold),
            fold: self.fold,
        };
        pattern.may_begin_with(prefix)
    }
}

fn pieces(text: &str, reading: PatternSyntax) -> Result<Vec<Piece>, BadVariable> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let special = match c {
            '*' if reading.wildcards => Some(Piece::Many),
            '?' if reading.wildcards => Some(Piece::One),
            _ => None,
        };
        if let Some(piece) = special {
            flush(&mut plain, &mut pieces);
            if !(piece == Piece::Many && pieces.last() == Some(&Piece::Many)) {
                pieces.push(piece);
            }
            rest = &rest[1..];
        } else if reading.variables && rest.starts_with("${") {
            let end = rest
                .find('}')
                .ok_or_else(|| BadVariable(rest.chars().take(64).collect()))?;
            let inside = &rest[2..end];
            match inside {
                // The three that stand for themselves.
                "*" | "?" | "$" => plain.push_str(inside),
                _ => {
                    flush(&mut plain, &mut pieces);
                    pieces.push(variable(inside)?);
                }
            }
            rest = &rest[end + 1..];
        } else {
            plain.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    flush(&mut plain, &mut pieces);
    Ok(pieces)
}

fn flush(plain: &mut String, pieces: &mut Vec<Piece>) {
    if !plain.is_empty() {
        pieces.push(Piece::Text(std::mem::take(plain)));
    }
}

fn variable(inside: &str) -> Result<Piece, BadVariable> {
    let bad = || BadVariable(inside.chars().take(64).collect());
    let (name, default) = match inside.split_once(',') {
        None => (inside, None),
        Some((name, default)) => {
            let default = default.trim();
            let unquoted = default
                .strip_prefix('\'')
                .and_then(|text| text.strip_suffix('\''));
            (name, Some(unquoted.ok_or_else(bad)?.to_owned()))
        }
    };
    let key = Key::parse(name.trim()).ok_or_else(bad)?;
    Ok(Piece::Variable { key, default })
}

/// The pieces with their variables replaced. The values are literal: a star in a user's name is no
/// wildcard.
fn filled(pieces: &[Piece], variables: Variables<'_>) -> Result<Option<Vec<Piece>>, OmittedClaim> {
    let mut filled = Vec::with_capacity(pieces.len());
    for piece in pieces {
        filled.push(match piece {
            Piece::Variable { key, default } => match variables(key)?.or_else(|| default.clone()) {
                Some(value) => Piece::Text(value),
                None => return Ok(None),
            },
            other => other.clone(),
        });
    }
    Ok(Some(filled))
}

/// The pieces with a star for each variable. They match every possible value of the variables.
fn opened(pieces: &[Piece]) -> Vec<Piece> {
    let open = pieces.iter().map(|piece| match piece {
        Piece::Variable { .. } => Piece::Many,
        other => other.clone(),
    });
    open.collect()
}

fn shape(pieces: Vec<Piece>, fold: bool) -> Shape {
    // Texts that came to stand side by side are one.
    let mut joined: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match (joined.last_mut(), piece) {
            (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(&text),
            (_, Piece::Text(text)) if text.is_empty() => {}
            (Some(Piece::Many), Piece::Many) => {}
            (_, piece) => joined.push(piece),
        }
    }
    for piece in &mut joined {
        if let Piece::Text(text) = piece
            && fold
        {
            text.make_ascii_lowercase();
        }
    }
    match &joined[..] {
        [] => Shape::Exact("".into()),
        [Piece::Many] => Shape::Any,
        [Piece::Text(text)] => Shape::Exact(text.as_str().into()),
        [Piece::Text(text), Piece::Many] => Shape::Prefix(text.as_str().into()),
        pieces => Shape::Glob(Glob::new(pieces)),
    }
}

/// A pattern with stars or question marks in any place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Glob {
    /// The segments between stars, in order; none is empty.
    segments: Box<[Segment]>,
    /// Whether it begins with a star.
    open_start: bool,
    /// Whether it ends with one.
    open_end: bool,
}

/// A piece between stars.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    /// Without `?`.
    Plain(Box<str>),
    /// With; `None` is a `?`.
    WildcardPiece(WildcardPiece),
}

impl Glob {
    /// The text before the first wildcard, where it is known.
    fn literal_start(&self) -> &str {
        match self.segments.first() {
            Some(Segment::Plain(text)) if !self.open_start => text,
            _ => "",
        }
    }

    fn new(pieces: &[Piece]) -> Self {
        let mut segments = Vec::new();
        let mut current: Vec<Option<char>> = Vec::new();
        let mut any_one = false;
        let mut close = |current: &mut Vec<Option<char>>, any_one: &mut bool| {
            if !current.is_empty() {
                segments.push(if *any_one {
                    Segment::WildcardPiece(WildcardPiece::new(current))
                } else {
                    let text: String = current.iter().flatten().collect();
                    Segment::Plain(text.into())
                });
            }
            current.clear();
            *any_one = false;
        };
        for piece in pieces {
            match piece {
                Piece::Text(text) => current.extend(text.chars().map(Some)),
                Piece::One => {
                    current.push(None);
                    any_one = true;
                }
                Piece::Many | Piece::Variable { .. } => close(&mut current, &mut any_one),
            }
        }
        close(&mut current, &mut any_one);
        Self {
            segments: segments.into(),
            open_start: matches!(pieces.first(), Some(Piece::Many)),
            open_end: matches!(pieces.last(), Some(Piece::Many)),
        }
    }

    fn matches(&self, text: &str) -> bool {
        let mut rest = text;
        let mut segments = &*self.segments;
        if !self.open_start {
            let Some((first, others)) = segments.split_first() else {
                return rest.is_empty();
            };
            if others.is_empty() && !self.open_end {
                return first.at_start(rest) == Some(rest.len());
            }
            let Some(end) = first.at_start(rest) else {
                return false;
            };
            rest = &rest[end..];
            segments = others;
        }
        if !self.open_end {
            let Some((last, others)) = segments.split_last() else {
                return rest.is_empty();
            };
            let Some(start) = last.at_end(rest) else {
                return false;
            };
            rest = &rest[..start];
            segments = others;
        }
        for segment in segments {
            let Some(end) = segment.find_end(rest) else {
                return false;
            };
            rest = &rest[end..];
        }
        true
    }

    /// See [`Pattern::may_begin_with`]: the possible positions in the pattern after `prefix`.
    fn may_begin_with(&self, prefix: &str, own: &str) -> bool {
        if self.matches(own) || self.open_start {
            return true;
        }
        let Some(first) = self.segments.first() else {
            return false;
        };
        // Up to the first star all characters count, one by one.
        let mut wanted = first.chars();
        for c in prefix.chars() {
            match wanted.next() {
                Some(Some(w)) if w != c => return false,
                Some(_) => {}
                None => return self.segments.len() > 1 || self.open_end,
            }
        }
        true
    }
}

impl Segment {
    fn chars(&self) -> Box<dyn Iterator<Item = Option<char>> + '_> {
        match self {
            Self::Plain(text) => Box::new(text.chars().map(Some)),
            Self::WildcardPiece(masked) => Box::new(masked.chars.iter().copied()),
        }
    }

    /// The end of the segment, if the text begins with it.
    fn at_start(&self, text: &str) -> Option<usize> {
        match self {
            Self::Plain(plain) => text.starts_with(&**plain).then_some(plain.len()),
            Self::WildcardPiece(masked) => {
                let mut chars = text.char_indices();
                for wanted in &masked.chars {
                    let (_, c) = chars.next()?;
                    if wanted.is_some_and(|wanted| wanted != c) {
                        return None;
                    }
                }
                Some(chars.next().map_or(text.len(), |(at, _)| at))
            }
        }
    }

    /// The start of the segment, if the text ends with it.
    fn at_end(&self, text: &str) -> Option<usize> {
        match self {
            Self::Plain(plain) => text
                .ends_with(&**plain)
                .then_some(text.len().saturating_sub(plain.len())),
            Self::WildcardPiece(masked) => {
                let (start, _) = text.char_indices().rev().nth(masked.chars.len() - 1)?;
                (self.at_start(&text[start..])? == text.len() - start).then_some(start)
            }
        }
    }

    /// The end of the segment's first occurrence.
    fn find_end(&self, text: &str) -> Option<usize> {
        match self {
            Self::Plain(plain) => text.find(&**plain).map(|at| at + plain.len()),
            Self::WildcardPiece(masked) => masked.find_end(text),
        }
    }
}

/// A piece with question marks, with the possible positions of each of its characters. Its memory
/// is linear in the piece, however many characters are different.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WildcardPiece {
    chars: Box<[Option<char>]>,
    /// By character, sorted: its own places, without those of `?`.
    places: Box<[(char, CharPositions)]>,
    /// A bit for each place of a `?`, where any character may stand.
    others: Box<[u64]>,
}

/// The positions of a character.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CharPositions {
    /// At no more places than a mask has words: these.
    Few(Box<[u32]>),
    /// A bit for each place.
    Many(Box<[u64]>),
}

impl CharPositions {
    fn new(places: Vec<u32>, words: usize) -> Self {
        if places.len() <= words {
            return Self::Few(places.into());
        }
        let mut mask = vec![0u64; words];
        for at in places {
            mask[at as usize / 64] |= 1 << (at % 64);
        }
        Self::Many(mask.into())
    }

    /// Puts them into a mask.
    fn put_into(&self, mask: &mut [u64]) {
        match self {
            Self::Few(places) => {
                for at in places {
                    mask[*at as usize / 64] |= 1 << (at % 64);
                }
            }
            Self::Many(own) => {
                for (word, own) in mask.iter_mut().zip(own) {
                    *word |= own;
                }
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        ALLOCATION_BYTES
            + match self {
                Self::Few(places) => size_of_val(&**places),
                Self::Many(mask) => size_of_val(&**mask),
            }
    }
}

impl WildcardPiece {
    fn new(chars: &[Option<char>]) -> Self {
        let words = chars.len().div_ceil(64);
        let mut others = vec![0u64; words];
        let mut places: BTreeMap<char, Vec<u32>> = BTreeMap::new();
        for (at, c) in (0u32..).zip(chars) {
            match c {
                None => others[at as usize / 64] |= 1 << (at % 64),
                Some(c) => places.entry(*c).or_default().push(at),
            }
        }
        let places = places.into_iter();
        Self {
            chars: chars.into(),
            places: places
                .map(|(c, at)| (c, CharPositions::new(at, words)))
                .collect(),
            others: others.into(),
        }
    }

    fn find_end(&self, text: &str) -> Option<usize> {
        let last = self.chars.len() - 1;
        let mut state = vec![0u64; self.others.len()];
        let mut mask = vec![0u64; self.others.len()];
        for (at, c) in text.char_indices() {
            mask.copy_from_slice(&self.others);
            if let Ok(found) = self.places.binary_search_by_key(&c, |(c, _)| *c) {
                self.places[found].1.put_into(&mut mask);
            }
            let mut carry = 1;
            for (word, mask) in state.iter_mut().zip(mask.iter()) {
                let next = *word >> 63;
                *word = (*word << 1 | carry) & mask;
                carry = next;
            }
            if state[last / 64] & (1 << (last % 64)) != 0 {
                return Some(at + c.len_utf8());
            }
        }
        None
    }

    fn memory_bytes(&self) -> usize {
        let places = self.places.iter().map(|(_, places)| places.memory_bytes());
        size_of_val(&*self.chars)
            + size_of_val(&*self.places)
            + size_of_val(&*self.others)
            + places.sum::<usize>()
            + 3 * ALLOCATION_BYTES
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GLOB: PatternSyntax = PatternSyntax {
        wildcards: true,
        variables: true,
        fold: false,
    };

    fn matches(pattern: &str, text: &str) -> bool {
        let pattern = Pattern::new(pattern, GLOB).expect("a pattern");
        let truth = pattern.matches(text, &|key| match key {
            Key::Username => Ok(Some("jo*n".into())),
            Key::Claim(_) => Err(OmittedClaim),
            _ => Ok(None),
        });
        truth == Truth::Yes
    }

    /// The same by trying everything.
    fn naive(pattern: &[char], text: &[char]) -> bool {
        match (pattern.first(), text.first()) {
            (None, None) => true,
            (Some('*'), _) => {
                naive(&pattern[1..], text) || (!text.is_empty() && naive(pattern, &text[1..]))
            }
            (Some('?'), Some(_)) => naive(&pattern[1..], &text[1..]),
            (Some(p), Some(t)) if p == t => naive(&pattern[1..], &text[1..]),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn is_what_trying_everything_says(pattern in "[abä*?]{0,8}", text in "[abä]{0,10}") {
            let p: Vec<char> = pattern.chars().collect();
            let t: Vec<char> = text.chars().collect();
            prop_assert_eq!(matches(&pattern, &text), naive(&p, &t));
        }

        #[test]
        fn may_begin_where_something_does(pattern in "[ab/*?]{0,6}", tail in "[ab/]{0,4}") {
            let compiled = Pattern::new(&pattern, GLOB).expect("a pattern");
            let text = format!("ab/{tail}");
            if matches(&pattern, &text) || matches(&pattern, "ab") {
                prop_assert!(compiled.may_begin_with("ab/"));
            }
        }
    }

    #[test]
    fn begins_only_where_it_can() {
        for (pattern, can) in [
            ("*", true),
            ("bucket", true),
            ("bucket/*", true),
            ("bucket/a", true),
            ("buck*", true),
            ("b?cket/x", true),
            ("*/*", true),
            ("other", false),
            ("bucke", false),
            ("bucket2/*", false),
            ("other*", false),
            ("b?cketx", false),
            ("${aws:username}/*", true),
        ] {
            let compiled = Pattern::new(pattern, GLOB).expect("a pattern");
            assert_eq!(compiled.may_begin_with("bucket/"), can, "{pattern}");
        }
    }

    #[test]
    fn variables_stand_for_themselves() {
        assert!(matches("home/${aws:username}/*", "home/jo*n/a"));
        assert!(!matches("home/${aws:username}/*", "home/john/a"));
        assert!(matches("${aws:username}", "jo*n"));
        assert!(!matches("${aws:userid}", ""));
        assert!(matches("${aws:userid, 'none'}-x", "none-x"));
        assert!(matches("a${*}b${?}c${$}", "a*b?c$"));
        assert!(!matches("a${*}b", "axb"));
        for bad in ["${aws:username", "${nothing:known}", "${aws:userid, x}"] {
            assert!(Pattern::new(bad, GLOB).is_err(), "{bad}");
        }
        let old = PatternSyntax {
            variables: false,
            ..GLOB
        };
        let literal = Pattern::new("${aws:username}", old).expect("no variable");
        assert!(literal.matches_text("${aws:username}"));
    }

    #[test]
    fn a_claim_that_was_not_kept_may_be_any_text() {
        let truth = |pattern: &str, text: &str| {
            let pattern = Pattern::new(pattern, GLOB).expect("a pattern");
            pattern.matches(text, &|_| Err(OmittedClaim))
        };
        assert_eq!(truth("home/${idp.org:sub}/*", "home/ann/a"), Truth::Unknown);
        assert_eq!(truth("home/${idp.org:sub}/*", "work/ann/a"), Truth::No);
        assert_eq!(truth("${idp.org:sub, 'x'}", "x"), Truth::Unknown);
        assert_eq!(truth("home/*", "home/ann"), Truth::Yes);
    }

    #[test]
    fn case_is_folded_where_asked() {
        let reading = PatternSyntax { fold: true, ..GLOB };
        let pattern = Pattern::new("Ab*C?", reading).expect("a pattern");
        assert!(pattern.matches_text("aBxxcD"));
        assert!(!pattern.matches_text("bBxxcD"));
    }

    #[test]
    fn no_pattern_takes_more_memory_than_some_times_its_length() {
        let different: String = ('\u{4e00}'..).take(6_000).collect();
        let hostile = [
            format!("*?{different}*"),
            "a?".repeat(10_000),
            "*a?".repeat(6_000),
            "?*".repeat(10_000),
            "${aws:userid}".repeat(1_500),
            ('a'..='z').cycle().take(20_000).chain(['?']).collect(),
        ];
        for text in hostile {
            let pattern = Pattern::new(&text, GLOB).expect("a pattern");
            let times = pattern.memory_bytes() / text.len();
            assert!(times <= 64, "{times} times {}", &text[..12]);
        }
    }

    /// Patterns that take other implementations hours.
    #[test]
    fn hostile_patterns_end() {
        let text = "a".repeat(100_000);
        let many = format!("{}b", "a*".repeat(5_000));
        assert!(!matches(&many, &text));
        let one = format!("*{}b*", "a?".repeat(5_000));
        assert!(!matches(&one, &text[..20_000]));
    }
}
