//! Reads settings from a document through serde, and goes on after a mistake.
//!
//! Every problem is recorded at its document node. [`Field`](super::field::Field) catches the mistake in one value, so that
//! one pass over the document finds all problems. Unknown keys and kinds are refused here, for all settings alike.

mod access;

use super::document::{Document, Kind, NodeId, quoted};
use super::field::FIELD;
use super::names::choose;
use super::problem::Log;
use access::{Children, Choice, WithNumber};
use serde::de::value::MapDeserializer;
use serde::de::{self, Expected, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use std::fmt;

/// Kinds that the reader assumes if a value names no kind: `"3 ms"` is read as `{ constant = "3 ms" }`.
const UNSAID_KINDS: [&str; 2] = ["constant", "every"];
/// Key that the reader assumes if a single value stands in place of a table: `"3 ms"` is read as `{ fixed = "3 ms" }`.
const UNSAID_KEY: &str = "fixed";

/// Struct name that settings with several forms pass to the reader, in order to learn which form the file uses.
pub(super) const FORM: &str = "$forebay::Form";

/// Values of `decode` that name a law of the profile: decoding by forebay itself, or by a library of Python.
pub(super) const MEASURED: [&str; 4] = ["decode", "pillow", "torchvision", "turbo"];

/// Form of a value, for settings that have several forms.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// The name of a measurement in a profile: one of [`MEASURED`].
    Word,
    /// A table with at least one of the keys that the settings asked for.
    Keys,
    /// Any value that is neither a text nor such a table.
    Other,
    /// Any other text.
    Text,
}

/// Deserializer of the value at one document node.
#[derive(Clone, Copy)]
pub(super) struct Reader<'d> {
    pub(super) document: &'d Document,
    pub(super) at: NodeId,
    pub(super) log: &'d Log,
    /// Whether the value is only the name of a kind, a text without settings.
    named: bool,
}

/// A read error: what is wrong, with the remedy on a second line; `None` once the problem is recorded.
#[derive(Debug)]
pub(super) struct ReadError(Option<String>);

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("see above"))
    }
}

impl std::error::Error for ReadError {}

impl de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(Some(message.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = expected.to_string().replace("a boolean", "true or false");
        let remedy = expected.trim_end_matches(',');
        Self::custom(format!(
            "found {}, where {expected} is expected\nwrite {remedy}",
            words(found)
        ))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }
}

/// Describes a value that was found, in words of TOML.
fn words(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Signed(value) => format!("the number {value}"),
        Unexpected::Unsigned(value) => format!("the number {value}"),
        Unexpected::Float(value) => format!("the number {value}"),
        Unexpected::Str(text) => {
            format!("the text {:?}", text.chars().take(60).collect::<String>())
        }
        Unexpected::Seq => "an array".to_owned(),
        Unexpected::Map => "a table".to_owned(),
        other => other.to_string(),
    }
}

impl<'d> Reader<'d> {
    /// Creates a reader of the value at document node `at`.
    pub(super) fn new(document: &'d Document, at: NodeId, log: &'d Log) -> Self {
        Self { document, at, log, named: false }
    }

    fn kind(self) -> &'d Kind {
        &self.document.node(self.at).kind
    }

    fn child(self, at: NodeId) -> Self {
        Self { at, named: false, ..self }
    }

    /// Records the error of `result` at this document node, unless the error is recorded already.
    fn settle<T>(self, result: Result<T, ReadError>) -> Result<T, ReadError> {
        result.map_err(|error| {
            if let Some(message) = error.0 {
                let (what, remedy) = message.split_once('\n').unwrap_or((&message, "correct it"));
                self.log.value(self.at, what, remedy);
            }
            ReadError(None)
        })
    }

    fn unexpected(self) -> Unexpected<'d> {
        match self.kind() {
            Kind::Text(text) => Unexpected::Str(text),
            Kind::Integer(value) => i64::try_from(*value)
                .map_or(Unexpected::Other("a huge integer"), Unexpected::Signed),
            Kind::Float(value) => Unexpected::Float(*value),
            Kind::Boolean(value) => Unexpected::Bool(*value),
            Kind::Date(_) => Unexpected::Other("a date or time"),
            Kind::List(_) => Unexpected::Other("an array"),
            Kind::Table(_) => Unexpected::Other("a table"),
        }
    }

    fn visit<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.kind() {
            Kind::Text(text) => visitor.visit_str(text),
            Kind::Integer(value) => match (i64::try_from(*value), u64::try_from(*value)) {
                (Ok(value), _) => visitor.visit_i64(value),
                (_, Ok(value)) => visitor.visit_u64(value),
                #[expect(clippy::cast_precision_loss, reason = "too large for any setting")]
                _ => visitor.visit_f64(*value as f64),
            },
            Kind::Float(value) => visitor.visit_f64(*value),
            Kind::Boolean(value) => visitor.visit_bool(*value),
            Kind::Date(_) => Err(de::Error::invalid_type(self.unexpected(), &visitor)),
            Kind::List(_) => visitor.visit_seq(Children::new(self, None)),
            Kind::Table(_) => visitor.visit_map(Children::new(self, None)),
        }
    }

    /// Visits the members of a table of settings, and records a problem for each unknown key.
    fn visit_known<V: Visitor<'d>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        if !matches!(self.kind(), Kind::Table(_)) {
            if fields.contains(&UNSAID_KEY) && !matches!(self.kind(), Kind::List(_)) {
                return visitor.visit_map(MapDeserializer::new([(UNSAID_KEY, self)].into_iter()));
            }
            let keys = fields.join(", ");
            let remedy = match (self.named, self.kind()) {
                (true, Kind::Text(kind)) => {
                    let key = &self.document.node(self.at).key;
                    format!(
                        "write `{key} = {{ {kind} = {{}} }}`, with any of the keys {keys} inside"
                    )
                }
                _ => format!("write a table with the keys {keys}"),
            };
            return Err(de::Error::custom(format!(
                "found {}, where a table is expected\n{remedy}",
                words(self.unexpected())
            )));
        }
        for &id in self.document.children(self.at) {
            let key = &self.document.node(id).key;
            if !fields.contains(&key.as_str()) {
                let full = self.log.is_full();
                let remedy = if full { String::new() } else { self.remedy(key, fields) };
                self.log.key(id, format!("unknown key `{key}`"), remedy);
            }
        }
        visitor.visit_map(Children::new(self, Some(fields)))
    }

    /// Returns the remedy for the unknown key `key` of a table. An override of a list's element by an unknown name becomes a key of
    /// every element, so the names of the elements are offered too.
    fn remedy(self, key: &str, fields: &[&str]) -> String {
        let parent = self.document.node(self.at).parent;
        let names: Vec<&str> = match self.document.node(parent).kind {
            Kind::List(_) => {
                let named =
                    |&element: &NodeId| self.document.text(self.document.member(element, "name")?);
                self.document.children(parent).iter().filter_map(named).collect()
            }
            _ => Vec::new(),
        };
        let overridden = self.document.member(self.at, key);
        let overridden = overridden.is_some_and(|id| self.document.node(id).origin.is_some());
        if overridden && !names.is_empty() {
            let dotted = |name: &&&str| name.contains('.') && name.split('.').next() == Some(key);
            if let Some(name) = names.iter().find(dotted) {
                return format!("write the name in quotes: `{}`", quoted(name));
            }
            let names_here: Vec<String> =
                names.iter().take(10).map(|name| format!("`{}`", quoted(name))).collect();
            let meant = choose(key, &[&names[..], fields].concat());
            return format!("{meant}; elements here: {}", names_here.join(", "));
        }
        choose(key, fields)
    }

    /// Returns the form of the value; the form is `Keys` if the value is a table with at least one of `keys`.
    fn form(self, keys: &[&str]) -> Form {
        let key = |id: NodeId| self.document.node(id).key.as_str();
        match self.kind() {
            Kind::Text(text) if MEASURED.contains(&text.as_str()) => Form::Word,
            Kind::Text(_) => Form::Text,
            Kind::Table(members) if members.iter().any(|&id| keys.contains(&key(id))) => Form::Keys,
            _ => Form::Other,
        }
    }

    /// Returns the kind that a value names, and the document node of the settings of this kind.
    fn choice(self, kinds: &'static [&'static str]) -> Result<(&'d str, NodeId), ReadError> {
        let children = self.document.children(self.at);
        let unsaid = UNSAID_KINDS.iter().find(|kind| kinds.contains(kind));
        match (self.kind(), unsaid, children) {
            (Kind::Table(_), _, &[one]) => {
                let key = &self.document.node(one).key;
                if kinds.contains(&key.as_str()) {
                    return Ok((key, one));
                }
                self.log.key(one, format!("unknown kind `{key}`"), choose(key, kinds));
                Err(ReadError(None))
            }
            (Kind::Table(_), _, &[]) => {
                let remedy = format!("write one of {}", kinds.join(", "));
                Err(de::Error::custom(format!("no kind is written\n{remedy}")))
            }
            (Kind::Table(_), _, &[_, second, ..]) => self.two_kinds(second, kinds),
            (_, Some(kind), _) => Ok((kind, self.at)),
            (Kind::Text(text), None, _) if kinds.contains(&text.as_str()) => Ok((text, self.at)),
            (Kind::Text(text), None, _) => {
                let remedy = choose(text, kinds);
                Err(de::Error::custom(format!("unknown value {text:?}\n{remedy}")))
            }
            _ => {
                let remedy = format!("write one of {}", kinds.join(", "));
                Err(de::Error::custom(format!("found {}\n{remedy}", words(self.unexpected()))))
            }
        }
    }

    fn two_kinds(
        self,
        second: NodeId,
        kinds: &'static [&'static str],
    ) -> Result<(&'d str, NodeId), ReadError> {
        let mut known = true;
        let children = self.document.children(self.at);
        let keys = || children.iter().map(|&id| self.document.node(id).key.as_str());
        let mut said = keys().filter(|key| kinds.contains(key));
        // A key that was meant as a setting of the kind beside it, as `bandwidth` beside `file-server`.
        let of = said.next().filter(|_| said.next().is_none());
        for (&id, key) in children.iter().zip(keys()) {
            if !kinds.contains(&key) {
                known = false;
                let below = of.map_or(String::new(), |kind| {
                    format!("if it is a setting of `{kind}`, write `{kind}.{key}`; ")
                });
                self.log.key(id, format!("unknown kind `{key}`"), below + &choose(key, kinds));
            }
        }
        if known {
            let keys =
                self.document.children(self.at).iter().map(|&id| &self.document.node(id).key);
            let keys = keys.map(|key| format!("`{key}`")).collect::<Vec<_>>().join(" and ");
            self.log.key(second, format!("two kinds are written: {keys}"), "keep one of them");
        }
        Err(ReadError(None))
    }
}

impl<'d> de::Deserializer<'d> for Reader<'d> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.settle(self.visit(visitor))
    }

    fn deserialize_option<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'d>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        if name == FIELD {
            visitor.visit_seq(WithNumber { reader: self, first: self.at as u64, next: 0 })
        } else {
            self.settle(visitor.visit_newtype_struct(self))
        }
    }

    fn deserialize_struct<V: Visitor<'d>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        if name == FORM {
            let first = self.form(fields) as u64;
            return visitor.visit_seq(WithNumber { reader: self, first, next: 0 });
        }
        self.settle(self.visit_known(fields, visitor))
    }

    fn deserialize_enum<V: Visitor<'d>>(
        self,
        _name: &'static str,
        kinds: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let (kind, at) = self.settle(self.choice(kinds))?;
        let named = matches!(self.kind(), Kind::Text(text) if text == kind);
        self.settle(visitor.visit_enum(Choice { kind, reader: Self { at, named, ..self } }))
    }

    fn deserialize_ignored_any<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <W: Visitor<'d>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier
    }
}

impl<'d> IntoDeserializer<'d, ReadError> for Reader<'d> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
