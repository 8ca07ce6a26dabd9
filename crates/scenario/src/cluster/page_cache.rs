//! The page cache of a node, and its settings.

use super::or_infinite;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::Positive;
use crate::profile::Profile;
use crate::reader::{FORM, Form};
use crate::role::Role;
use forebay_model::law::CachePolicy;
use forebay_model::units::{Bandwidth, Size};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// The page cache of a node. It keeps what the node's jobs read: whole files or, for shards, the bytes of single
/// requests.
///
/// All jobs of a node share the cache, whatever storage they read. It is empty at the start. Reads with `access =
/// "direct"`, reads from memory and reads from object stores bypass it.
#[derive(Debug, Clone, PartialEq)]
pub struct PageCache {
    /// Maximum number of bytes in the cache [B]; the node's memory may leave fewer: see
    /// [`crate::Scenario::page_cache`].
    pub capacity: f64,
    /// Eviction policy; `None`: the policy that fits the data's layout, random for files and least recently used for
    /// shards.
    pub policy: Option<CachePolicy>,
    /// Rate at which all readers of a node together read from the cache [B/s]; may be infinite.
    pub bandwidth: f64,
    /// Whether the cache is a default, because the file sets none: Linux keeps files that it reads in otherwise
    /// unused memory.
    pub assumed: bool,
}

/// The value of `page_cache`: a page cache, or "none".
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PageCacheWritten {
    /// No page cache: the files are larger than the memory, bypass the page cache, or were measured cold.
    None,
    /// A page cache with the given settings.
    Some(PageCacheSettings),
}

/// Page cache of a node, which keeps files that the node's jobs read.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PageCacheSettings {
    /// Maximum number of bytes in the cache, within the memory that workers and buffers leave free on the node
    /// (default: as the profile says, or the node's memory).
    #[schemars(extend("x-role" = Role::Limit))]
    capacity: Field<Positive<Size>>,
    /// Which file or request is evicted for a new one (default: as the profile says, or "random" for files of one
    /// sample and "lru" for shards).
    #[schemars(extend("x-role" = Role::Choice))]
    policy: Field<CachePolicy>,
    /// Rate at which all readers of a node together read from the cache (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    bandwidth: Field<Positive<Bandwidth>>,
}

impl PageCacheWritten {
    pub(super) fn over(&self, base: &Self) -> Self {
        match (self, base) {
            (Self::Some(own), Self::Some(base)) => Self::Some(own.over(base)),
            _ => self.clone(),
        }
    }
}

/// Checks and returns the page cache of the node whose table is at document node `at` and whose memory is `memory`.
/// Returns `Some(None)` if the node has no page cache, `None` if its settings are invalid.
pub(super) fn resolve(
    written: &Field<PageCacheWritten>,
    check: Check<'_>,
    at: NodeId,
    memory: &Field<Positive<Size>>,
) -> Option<Option<PageCache>> {
    match written.given() {
        Some((_, PageCacheWritten::None)) => Some(None),
        Some((at, PageCacheWritten::Some(cache))) => cache.resolve(check, at, memory).map(Some),
        None if written.is_written() => None,
        None => Some(assumed(check, at, memory)),
    }
}

/// Returns the default page cache of a node: Linux uses all memory that is otherwise free. Returns `None` if the size
/// of the memory is not set, or for a live run.
fn assumed(check: Check<'_>, at: NodeId, memory: &Field<Positive<Size>>) -> Option<PageCache> {
    // The machine of a live run has a page cache of its own.
    if check.lenient || memory.get().is_none() {
        let why = "`memory` of the node is not written";
        check.assume(at, "page_cache", "none", why);
        return None;
    }
    let value = "the memory that workers, buffers and in-memory data leave free";
    check.assume(at, "page_cache", value, "Linux keeps files that it reads in free memory");
    let cache = PageCacheSettings::default().resolve(check, at, memory)?;
    Some(PageCache { assumed: true, ..cache })
}

impl PageCacheSettings {
    fn over(&self, base: &PageCacheSettings) -> PageCacheSettings {
        PageCacheSettings {
            capacity: self.capacity.or(&base.capacity),
            policy: self.policy.or(&base.policy),
            bandwidth: self.bandwidth.or(&base.bandwidth),
        }
    }

    fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        memory: &Field<Positive<Size>>,
    ) -> Option<PageCache> {
        let measured = check.profile.and_then(Profile::page_cache);
        let capacity = match (self.capacity.is_written(), measured, memory.get()) {
            (false, Some((_, bytes)), _) => Some(bytes),
            (false, None, Some(memory)) => Some(memory.0),
            _ => {
                let remedy = "write `capacity = \"200 GiB\"`, or the node's `memory`";
                check.required(at, &self.capacity, "capacity", remedy).map(|given| given.0)
            }
        };
        if let (Some((at, capacity)), Some(memory)) = (self.capacity.given(), memory.get())
            && capacity.0 > memory.0
        {
            let what = "the page cache is larger than the node's memory";
            check.wrong(at, what, "write a capacity of at most `cluster.node.memory`");
        }
        Some(PageCache {
            capacity: capacity?,
            policy: self.policy.get().copied().or(measured.map(|(policy, _)| policy)),
            bandwidth: or_infinite(&self.bandwidth),
            assumed: false,
        })
    }
}

/// The word "none": the node has no page cache.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    None,
}

impl<'de> Deserialize<'de> for PageCacheWritten {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const KEYS: &[&str] = &["capacity", "policy", "bandwidth"];
        struct EitherForm;

        impl<'de> Visitor<'de> for EitherForm {
            type Value = PageCacheWritten;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"none\" or a table with the keys capacity, policy, bandwidth")
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> Result<PageCacheWritten, A::Error> {
                let form = seq.next_element::<u64>()?;
                let missing = || A::Error::invalid_length(1, &self);
                if form == Some(Form::Text as u64) {
                    let word = seq.next_element::<Word>()?.ok_or_else(missing)?;
                    return Ok(match word {
                        Word::None => PageCacheWritten::None,
                    });
                }
                seq.next_element()?.map(PageCacheWritten::Some).ok_or_else(missing)
            }
        }

        deserializer.deserialize_struct(FORM, KEYS, EitherForm)
    }
}

impl JsonSchema for PageCacheWritten {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "PageCacheWritten".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<PageCacheSettings>();
        json_schema!({ "anyOf": [{ "const": "none" }, table] })
    }
}
