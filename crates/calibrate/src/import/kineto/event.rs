//! Reads the events of a trace one by one: a value of a wrong kind costs its event, not the file.

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The fields of an event that are used.
#[derive(Debug, Default)]
pub(super) struct Event {
    pub(super) kind: Option<Scalar>,
    pub(super) category: Option<Scalar>,
    pub(super) name: Option<Scalar>,
    pub(super) process: Option<Scalar>,
    pub(super) thread: Option<Scalar>,
    pub(super) start: Option<Scalar>,
    pub(super) duration: Option<Scalar>,
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Number(f64),
    Text(String),
    /// Null, true, a list or a table.
    Other,
}

impl Scalar {
    /// Returns a finite number, which may be written as text.
    pub(super) fn number(&self) -> Option<f64> {
        let number = match self {
            Scalar::Number(number) => *number,
            Scalar::Text(text) => text.trim().parse().ok()?,
            Scalar::Other => return None,
        };
        number.is_finite().then_some(number)
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Scalar::Text(text) => Some(text),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Key {
    Ph,
    Cat,
    Name,
    Pid,
    Tid,
    Ts,
    Dur,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number as f64))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number as f64))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.to_owned()))
            }

            fn visit_bool<E: Error>(self, _: bool) -> Result<Scalar, E> {
                Ok(Scalar::Other)
            }

            fn visit_unit<E: Error>(self) -> Result<Scalar, E> {
                Ok(Scalar::Other)
            }

            // Nested values are skipped, not stored.
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other)
            }
        }

        deserializer.deserialize_any(Any)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Event, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Event;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event, A::Error> {
                let mut event = Event::default();
                while let Some(key) = map.next_key()? {
                    let field = match key {
                        Key::Ph => &mut event.kind,
                        Key::Cat => &mut event.category,
                        Key::Name => &mut event.name,
                        Key::Pid => &mut event.process,
                        Key::Tid => &mut event.thread,
                        Key::Ts => &mut event.start,
                        Key::Dur => &mut event.duration,
                        Key::Other => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    *field = Some(map.next_value()?);
                }
                Ok(event)
            }

            // What is no table is no event.
            fn visit_unit<E: Error>(self) -> Result<Event, E> {
                Ok(Event::default())
            }

            fn visit_bool<E: Error>(self, _: bool) -> Result<Event, E> {
                Ok(Event::default())
            }

            fn visit_u64<E: Error>(self, _: u64) -> Result<Event, E> {
                Ok(Event::default())
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<Event, E> {
                Ok(Event::default())
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<Event, E> {
                Ok(Event::default())
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<Event, E> {
                Ok(Event::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Event, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Event::default())
            }
        }

        deserializer.deserialize_any(Fields)
    }
}
