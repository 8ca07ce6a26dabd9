//! Bytes of gradients or parameters that are sent: as set in the scenario file, or of the catalogue's model.

use super::gradients::{Gradient, OfModel, even};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Count, Positive, Share};
use forebay_model::units::Size;
use schemars::JsonSchema;
use serde::Deserialize;

/// Maximum number of tensors, and of buckets.
pub(super) const MOST_TENSORS: u64 = 100_000;

/// Floating-point format in which gradients or parameters are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Precision {
    /// Numbers of 32 bits.
    Fp32,
    /// Numbers of 16 bits.
    Fp16,
}

/// The keys of a sync table that state which gradients or parameters are sent.
pub(super) struct Sent<'s> {
    /// Name that the key `bytes` has in scenario files.
    pub(super) key: &'static str,
    pub(super) bytes: &'s Field<Positive<Size>>,
    pub(super) tensors: &'s Field<Count<1, MOST_TENSORS>>,
    pub(super) precision: &'s Field<Precision>,
    pub(super) backward: &'s Field<Share>,
}

impl Sent<'_> {
    /// Remarks on keys that have no effect because of other keys.
    pub(super) fn remark(&self, check: Check<'_>, of: &OfModel) {
        if self.bytes.is_written() {
            let why = format!("`{}` says how many bytes are sent", self.key);
            check.no_effect(self.precision.at, &why);
        } else if !of.gradients.is_empty() {
            check.no_effect(self.tensors.at, "the catalogue knows the model's layers");
            check.no_effect(self.backward.at, "the catalogue knows the model's layers");
        }
    }

    /// Returns the share of a step that backward takes if only the bytes of the gradients are known, so that they
    /// can be cut anywhere; `None` if tensors or layers are known.
    pub(super) fn divisible(&self, of: &OfModel) -> Option<f64> {
        let known =
            self.tensors.is_written() || !self.bytes.is_written() && !of.gradients.is_empty();
        (!known).then(|| self.backward())
    }

    fn backward(&self) -> f64 {
        self.backward.get().map_or(2.0 / 3.0, |share| share.0)
    }

    /// Returns the gradients in the order in which backward makes them; reports a problem and returns `None` if
    /// their bytes are unknown.
    pub(super) fn gradients(
        &self,
        check: Check<'_>,
        at: NodeId,
        of: &OfModel,
    ) -> Option<Vec<Gradient>> {
        let backward = self.backward();
        if self.bytes.is_written() || of.gradients.is_empty() {
            let remedy = format!("write `{} = \"102 MB\"`", self.key);
            let bytes = check.required(at, self.bytes, self.key, remedy)?.0;
            let tensors = self.tensors.get().map_or(1, |tensors| tensors.small());
            return Some(even(bytes, tensors, backward));
        }
        let part = match self.precision.get() {
            None => of.precision.bytes() / 4.0,
            Some(Precision::Fp32) => 1.0,
            Some(Precision::Fp16) => 0.5,
        };
        let halved = |gradient: &Gradient| Gradient { bytes: part * gradient.bytes, ..*gradient };
        Some(of.gradients.iter().map(halved).collect())
    }
}
