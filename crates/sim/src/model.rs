//! The values that may be read, given the requests and their answers.
//!
//! Every change of a key is a *write* with a begin and an end on one counter of events. A write
//! with an answer happened between the two. A write that certainly failed is forgotten. A write
//! without an answer, because the client left or the power failed, may have happened at any time
//! after its begin, or never. A read may show a write unless an answered one lies completely
//! between the two. When no operation is under way, the value that is read is final:
//! [`Model::settle`] forgets the others, so that all open writes are decided.

use std::collections::BTreeMap;

use crate::content::ObjectContent;

/// The value of a key: content, or nothing.
pub type Value = Option<ObjectContent>;

/// A moment: how many events were before it.
pub type Moment = u64;

#[derive(Clone, Debug)]
enum Effect {
    /// One of these.
    Any(Vec<Value>),
    /// The content of another key at some time since.
    Of(String, Moment),
}

#[derive(Clone, Debug)]
struct Write {
    id: u64,
    begin: Moment,
    end: Option<Moment>,
    effect: Effect,
    /// It was read before it was answered.
    seen: bool,
}

/// A write under way.
#[derive(Clone, Debug)]
pub struct Pending {
    key: String,
    id: u64,
}

/// All keys of the bucket, and their possible values.
#[derive(Debug, Default)]
pub struct Model {
    now: Moment,
    keys: BTreeMap<String, Vec<Write>>,
    /// Every value that was ever written, for runs in which even the return of an old value is
    /// allowed.
    past: Option<Vec<Value>>,
}

impl Model {
    /// A model for runs that may lose data. Any key may hold any value that was ever written to any
    /// key, or nothing. Only bytes that no client wrote are wrong.
    #[must_use]
    pub fn of_doom() -> Self {
        Self {
            past: Some(vec![None]),
            ..Self::default()
        }
    }

    /// The next moment.
    pub fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// A write of `value` begins.
    pub fn begin(&mut self, key: &str, value: Value) -> Pending {
        if let Some(past) = &mut self.past {
            past.push(value.clone());
        }
        self.add(key, Effect::Any(vec![value]))
    }

    /// Begins a write of the content of another key.
    pub fn begin_from(&mut self, key: &str, source: &str) -> Pending {
        let now = self.now + 1;
        self.add(key, Effect::Of(source.to_owned(), now))
    }

    fn add(&mut self, key: &str, effect: Effect) -> Pending {
        let id = self.tick();
        let writes = self.keys.entry(key.to_owned()).or_insert_with(|| {
            vec![Write {
                id: 0,
                begin: 0,
                end: Some(0),
                effect: Effect::Any(vec![None]),
                seen: false,
            }]
        });
        writes.push(Write {
            id,
            begin: id,
            end: None,
            effect,
            seen: false,
        });
        Pending {
            key: key.to_owned(),
            id,
        }
    }

    /// The write was answered, so it has happened.
    pub fn done(&mut self, pending: &Pending) {
        self.done_with(pending, |_| true);
    }

    /// The same for a write whose answer says more about the value.
    pub fn done_with(&mut self, pending: &Pending, is: impl Fn(&Value) -> bool) {
        let now = self.tick();
        let Some(write) = self.write(pending) else {
            return;
        };
        let mut values = match write.effect.clone() {
            Effect::Any(values) => values,
            Effect::Of(source, since) => {
                let mut values = self.values(&source, since);
                // It found something.
                values.retain(Option::is_some);
                values
            }
        };
        values.retain(is);
        if let Some(write) = self.write(pending) {
            // What was seen had happened by then.
            write.end.get_or_insert(now);
            write.effect = Effect::Any(values);
        }
    }

    /// A read showed this value. If only one open write can have caused it, that write has
    /// happened.
    pub fn seen(&mut self, key: &str, value: &Value) {
        let now = self.tick();
        if self.past.is_some() || value.is_none() {
            return;
        }
        let Some(writes) = self.keys.get_mut(key) else {
            return;
        };
        let can = |write: &&mut Write| match &write.effect {
            Effect::Any(values) => values.contains(value),
            Effect::Of(..) => true,
        };
        let mut able: Vec<&mut Write> = writes.iter_mut().filter(can).collect();
        if let [only] = &mut able[..]
            && only.end.is_none()
            && matches!(&only.effect, Effect::Any(values) if values.len() == 1)
        {
            only.end = Some(now);
            only.seen = true;
        }
    }

    /// Whether a write was read before it was answered.
    #[must_use]
    pub fn was_seen(&self, pending: &Pending) -> bool {
        let writes = self.keys.get(&pending.key);
        let write = writes.and_then(|writes| writes.iter().find(|write| write.id == pending.id));
        write.is_some_and(|write| write.seen)
    }

    /// Keys with a write under way.
    #[must_use]
    pub fn open(&self) -> Vec<String> {
        let open = |writes: &Vec<Write>| writes.iter().any(|write| write.end.is_none());
        let keys = self.keys.iter().filter(|(_, writes)| open(writes));
        keys.map(|(key, _)| key.clone()).collect()
    }

    /// The write was answered, but it may have had nothing to do: a directory was renamed, and the
    /// key may not have been in it.
    pub fn done_perhaps(&mut self, pending: &Pending) {
        let now = self.tick();
        let values = match self.write(pending).map(|write| write.effect.clone()) {
            Some(Effect::Of(source, since)) => self.values(&source, since),
            Some(Effect::Any(values)) => values,
            None => return,
        };
        if let Some(write) = self.write(pending) {
            write.end = Some(now);
            write.effect = Effect::Any(values);
        }
    }

    /// The write failed and left nothing.
    pub fn failed(&mut self, pending: &Pending) {
        self.tick();
        if let Some(writes) = self.keys.get_mut(&pending.key) {
            writes.retain(|write| write.id != pending.id);
        }
    }

    fn write(&mut self, pending: &Pending) -> Option<&mut Write> {
        let writes = self.keys.get_mut(&pending.key)?;
        writes.iter_mut().find(|write| write.id == pending.id)
    }

    /// The values that a read that began at `since` and ends now may show.
    #[must_use]
    pub fn values(&self, key: &str, since: Moment) -> Vec<Value> {
        if let Some(past) = &self.past {
            return past.clone();
        }
        let mut values = Vec::new();
        self.collect(key, since, 0, &mut values);
        values.sort();
        values.dedup();
        values
    }

    fn collect(&self, key: &str, since: Moment, depth: usize, values: &mut Vec<Value>) {
        /// Renames of renames that are all still open.
        const DEPTH_MAX: usize = 6;
        let Some(writes) = self.keys.get(key) else {
            values.push(None);
            return;
        };
        for write in writes {
            let hidden = writes.iter().any(|later| {
                write.end.is_some_and(|end| end < later.begin)
                    && later.end.is_some_and(|end| end < since)
            });
            if hidden {
                continue;
            }
            match &write.effect {
                Effect::Any(some) => values.extend(some.iter().cloned()),
                Effect::Of(source, from) if depth < DEPTH_MAX => {
                    self.collect(source, *from, depth + 1, values);
                }
                Effect::Of(..) => {}
            }
        }
    }

    /// Called when no operation is under way. Records the content that an open rename may have
    /// taken, since its source is about to be settled.
    pub fn freeze(&mut self) {
        let before = self.keys.clone();
        let before = Self {
            now: self.now,
            keys: before,
            past: None,
        };
        for write in self.keys.values_mut().flatten() {
            if let Effect::Of(source, since) = &write.effect {
                write.effect = Effect::Any(before.values(source, *since));
            }
        }
    }

    /// Records a read while no operation was under way.
    pub fn settle(&mut self, key: &str, value: Value) {
        let now = self.tick();
        if value.is_none() {
            self.keys.remove(key);
            return;
        }
        let settled = Write {
            id: now,
            begin: now,
            end: Some(now),
            effect: Effect::Any(vec![value]),
            seen: false,
        };
        self.keys.insert(key.to_owned(), vec![settled]);
    }

    /// All keys that may hold something.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.keys.keys().cloned().collect()
    }

    /// The settled keys with content, with its length.
    #[must_use]
    pub fn settled(&self) -> Vec<(String, u64)> {
        let held = |(key, writes): (&String, &Vec<Write>)| match &writes.last()?.effect {
            Effect::Any(values) => Some((key.clone(), values.first()?.as_ref()?.len())),
            Effect::Of(..) => None,
        };
        self.keys.iter().filter_map(held).collect()
    }

    /// Description of the known facts about a key, for failures.
    #[must_use]
    pub fn describe(&self, key: &str) -> String {
        format!("{:?}", self.keys.get(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(n: u64) -> Value {
        Some(ObjectContent::new(n, 10))
    }

    #[test]
    fn answered_writes_hide_what_was_before() {
        let mut model = Model::default();
        assert_eq!(model.values("a", 0), [None]);
        let one = model.begin("a", content(1));
        let since = model.tick();
        assert_eq!(model.values("a", since), [None, content(1)]);
        model.done(&one);
        // The read began before the answer.
        assert_eq!(model.values("a", since), [None, content(1)]);
        let since = model.tick();
        assert_eq!(model.values("a", since), [content(1)]);
    }

    #[test]
    fn open_writes_stay_possible_until_settled() {
        let mut model = Model::default();
        model.begin("a", content(1));
        let two = model.begin("a", content(2));
        model.done(&two);
        let gone = model.begin("a", None);
        model.failed(&gone);
        let since = model.tick();
        assert_eq!(model.values("a", since), [content(1), content(2)]);
        model.settle("a", content(1));
        let since = model.tick();
        assert_eq!(model.values("a", since), [content(1)]);
        assert_eq!(model.settled(), [("a".to_owned(), 10)]);
    }

    #[test]
    fn what_was_read_stays() {
        let mut model = Model::default();
        let one = model.begin("a", content(1));
        model.done(&one);
        let two = model.begin("a", content(2));
        assert_eq!(model.open(), ["a"]);
        model.seen("a", &content(2));
        assert!(model.was_seen(&two) && !model.was_seen(&one));
        let since = model.tick();
        assert_eq!(model.values("a", since), [content(2)]);
    }

    #[test]
    fn a_rename_takes_what_was_there() {
        let mut model = Model::default();
        let one = model.begin("a", content(1));
        model.done(&one);
        let to = model.begin_from("b", "a");
        let from = model.begin("a", None);
        let since = model.tick();
        assert_eq!(model.values("b", since), [None, content(1)]);
        model.done(&to);
        model.done(&from);
        let since = model.tick();
        assert_eq!(model.values("a", since), [None]);
        assert_eq!(model.values("b", since), [content(1)]);
    }
}
