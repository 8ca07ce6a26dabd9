//! Settings of decoding, such as `"50 us"`, a law, or `"decode"` or `"pillow"` for a law of the profile.

use super::Operation;
use crate::check::Check;
use crate::distribution::settings::Varying;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::Amount;
use crate::reader::{FORM, Form};
use crate::reading::decode_law;
use crate::{Dataset, Image};
use forebay_model::law::DecodeLaw;
use forebay_model::units::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// The cost of decoding a sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DecodeSettings {
    /// The profile's law of images of this format, or of a library that decodes them, gives the core-seconds.
    Measured(String),
    /// The core-seconds follow from the sample's bytes and pixels.
    Law(LawSettings),
    /// A core is busy for this time, whatever the size of the sample.
    Time(Varying<Time>),
}

/// Core-seconds to decode a sample: the sum of a constant, a part for its stored bytes and a part for its pixels.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LawSettings {
    /// Core-seconds for each sample (default: 0 s).
    fixed: Field<Amount<Time>>,
    /// Core-seconds for each stored byte (default: 0 s).
    per_byte: Field<Amount<Time>>,
    /// Core-seconds for each pixel as stored (default: 0 s).
    per_pixel: Field<Amount<Time>>,
}

impl DecodeSettings {
    /// Checks the value at document node `at` and returns the decode operation for samples of `dataset`; `None` if
    /// the value is invalid.
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        dataset: Option<&Dataset>,
    ) -> Option<Operation> {
        match self {
            Self::Measured(of) => Some(Operation::Decode(measured(check, at, dataset, of)?)),
            Self::Law(law) => Some(Operation::Decode(law.resolve(check, dataset))),
            Self::Time(time) => Some(Operation::Compute(time.resolve(check, at)?)),
        }
    }
}

/// Returns the decode operation of a loader whose table is at document node `at`: the one that is set, or the
/// profile's law if the samples are images. Returns `Some(None)` if nothing is decoded, `None` if there is a mistake.
pub(super) fn of_sample(
    written: &Field<DecodeSettings>,
    check: Check<'_>,
    at: NodeId,
    dataset: Option<&Dataset>,
) -> Option<Option<Operation>> {
    if let Some((at, decode)) = written.given() {
        return Some(Some(decode.resolve(check, at, dataset)?));
    }
    let images = dataset.is_some_and(|of| of.image.is_some());
    if written.is_written() || !images {
        return Some(None);
    }
    Some(Some(Operation::Decode(measured(check, at, dataset, JPEG)?)))
}

/// The name by which a profile has decoding by forebay itself.
const JPEG: &str = "jpeg";

/// Returns the profile's law of decoding the images of `dataset`; `of` names the library. Reports a problem at document node `at` and returns
/// `None` if the samples are not images or the profile has no such law.
fn measured(
    check: Check<'_>,
    at: NodeId,
    dataset: Option<&Dataset>,
    of: &str,
) -> Option<DecodeLaw> {
    if let Some(dataset) = dataset
        && dataset.image.is_none()
    {
        let what = format!("the samples of {:?} are not images", dataset.name);
        let path = format!("dataset.{}.image", dataset.name);
        let remedy = format!(
            "write `{path} = {{ width = 500, height = 375 }}`, or how long decoding takes: \
             {{ decode = \"2 ms\" }}"
        );
        check.wrong(at, what, remedy);
        return None;
    }
    let image = dataset.and_then(|dataset| dataset.image);
    let resize = image.and_then(|image| image.resize).unwrap_or(0);
    let fit = check.profile.and_then(|profile| profile.decode_fit(of, resize));
    match fit.and_then(|(_, fit)| decode_law(fit)) {
        Some(law) => Some(law),
        None => {
            check.unsaid(at, "decode", "decode = \"2 ms\"", &format!("decode.{of}"))?;
            Some(DecodeLaw::default())
        }
    }
}

impl LawSettings {
    fn resolve(&self, check: Check<'_>, dataset: Option<&Dataset>) -> DecodeLaw {
        let or_zero = |field: &Field<Amount<Time>>| field.get().map_or(0.0, |given| given.0);
        let image: Option<Image> = dataset.and_then(|dataset| dataset.image);
        if let (Some((at, _)), Some(dataset), None) = (self.per_pixel.given(), dataset, image) {
            let path = check.document.path(at);
            check.remark(format!(
                "`{path}` has no effect: the samples of `{}` are not images.",
                dataset.name
            ));
        }
        DecodeLaw {
            fixed: or_zero(&self.fixed),
            per_byte: or_zero(&self.per_byte),
            per_pixel: or_zero(&self.per_pixel),
        }
    }
}

impl<'de> Deserialize<'de> for DecodeSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InAnyForm;

        impl<'de> Visitor<'de> for InAnyForm {
            type Value = DecodeSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time or what it depends on")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<DecodeSettings, A::Error> {
                let form = seq.next_element::<u64>()?;
                let missing = || A::Error::invalid_length(1, &self);
                match form {
                    Some(form) if form == Form::Word as u64 => {
                        let word: String = seq.next_element()?.ok_or_else(missing)?;
                        let of = if word == "decode" { JPEG.to_owned() } else { word };
                        Ok(DecodeSettings::Measured(of))
                    }
                    Some(form) if form == Form::Keys as u64 => {
                        seq.next_element()?.map(DecodeSettings::Law).ok_or_else(missing)
                    }
                    _ => seq.next_element()?.map(DecodeSettings::Time).ok_or_else(missing),
                }
            }
        }

        deserializer.deserialize_struct(FORM, &["fixed", "per_byte", "per_pixel"], InAnyForm)
    }
}

impl JsonSchema for DecodeSettings {
    fn schema_name() -> Cow<'static, str> {
        "Decode".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let time = generator.subschema_for::<Varying<Time>>();
        let law = generator.subschema_for::<LawSettings>();
        json_schema!({
            "description": "core-seconds of a sample: a time, or by its bytes and pixels",
            "anyOf": [time, law],
        })
    }
}
