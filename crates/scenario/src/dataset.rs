//! Data sets and their settings.

use super::check::Check;
use super::distribution::settings::Varying;
use super::document::NodeId;
use super::field::{Field, Named};
use super::layout::settings::LayoutSettings;
use super::number::{Count, Positive};
use super::{Distribution, Layout, Ranges};
use crate::role::Role;
pub use forebay_model::random::SampleOrder;
use forebay_model::units::Size;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// A data set: samples, their sizes, how they are packed into files and in which order they are
/// read.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Name, for reports.
    pub name: String,
    /// Samples in one epoch.
    pub samples: u64,
    /// Size of each sample as stored.
    pub sizes: SampleSizes,
    /// Size of a sample after decoding, for copies to the device [B]; `None`: the size as stored.
    pub decoded_size: Option<f64>,
    /// How samples are packed into files.
    pub layout: Layout,
    /// Requests that fetch a sample in pieces, if samples are read one by one; `None`: each sample is a single request.
    pub ranges: Option<Ranges>,
    /// Order in which an epoch visits samples.
    pub order: SampleOrder,
    /// Size of the images, if samples are images.
    pub image: Option<Image>,
}

/// Samples that are JPEG images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    /// Width as stored [pixels].
    pub width: u32,
    /// Height as stored [pixels].
    pub height: u32,
    /// Width and height to which decoding resizes images [pixels]; `None`: images keep their size.
    pub resize: Option<u32>,
}

impl Image {
    /// Returns the number of pixels as stored.
    #[must_use]
    pub fn pixels(&self) -> f64 {
        f64::from(self.width) * f64::from(self.height)
    }
}

impl Dataset {
    /// Returns a data set of this many samples of `size` bytes, each in its own file, shuffled.
    #[must_use]
    pub fn of_files(samples: u64, size: f64) -> Dataset {
        Dataset {
            name: "files".to_owned(),
            samples,
            sizes: SampleSizes::Drawn(Distribution::Constant(size)),
            decoded_size: None,
            layout: Layout::FilePerSample,
            ranges: None,
            order: SampleOrder::Shuffled,
            image: None,
        }
    }

    /// Returns the mean size of a sample as stored [B].
    #[must_use]
    pub fn mean_size(&self) -> f64 {
        match &self.sizes {
            SampleSizes::Drawn(size) => size.mean(),
            #[expect(clippy::cast_precision_loss, reason = "tables are far below 2^53")]
            SampleSizes::Table { table, .. } => table.iter().sum::<f64>() / table.len() as f64,
        }
    }
}

/// Size of each sample as stored [B].
#[derive(Debug, Clone, PartialEq)]
pub enum SampleSizes {
    /// Sampled at random once per sample: a sample has the same size in every epoch, job and replication.
    Drawn(Distribution),
    /// Looked up in a table: the `i`-th sample that job copy `j` reads has size `table[(j·job_stride + i·sample_stride) mod
    /// table.len()]`. No scenario file can set this; programs use it to feed two engines the same sizes.
    Table {
        /// Sizes [B]; not empty.
        table: Arc<[f64]>,
        /// Distance in the table from one job copy to the next.
        job_stride: u64,
        /// Distance in the table from one sample to the next.
        sample_stride: u64,
    },
}

/// A data set.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DatasetSettings {
    /// Samples in one epoch.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    samples: Field<Count<1, 1_000_000_000_000>>,
    /// Size of a sample as stored; if it varies, each sample's size is sampled once.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    sample_size: Field<Varying<Size>>,
    /// Size of a sample after decoding, for copies to the device (default: as stored).
    #[schemars(extend("x-role" = Role::Identity))]
    decoded_size: Field<Positive<Size>>,
    /// How samples are packed into files (default: `file-per-sample = {}`).
    #[schemars(extend("x-role" = Role::Choice))]
    layout: Field<LayoutSettings>,
    /// Order in which an epoch visits samples or shards (default: "shuffled").
    #[schemars(extend("x-role" = Role::Identity))]
    order: Field<SampleOrder>,
    /// Size of the JPEG images, if samples are images; decoding then costs what the profile says (default: opaque bytes).
    #[schemars(extend("x-role" = Role::Identity))]
    image: Field<ImageSettings>,
}

/// JPEG images.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ImageSettings {
    /// Width as stored [pixels].
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    width: Field<Count<1, 65_535>>,
    /// Height as stored [pixels].
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    height: Field<Count<1, 65_535>>,
    /// Width and height to which decoding resizes [pixels] (default: as stored).
    #[schemars(extend("x-role" = Role::Identity))]
    resize: Field<Count<1, 65_535>>,
}

impl ImageSettings {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Image> {
        let width = check.required(at, &self.width, "width", "write `width = 500`");
        let height = check.required(at, &self.height, "height", "write `height = 375`");
        let resize = self.resize.get().map(|side| side.small());
        Some(Image { width: width?.small(), height: height?.small(), resize })
    }
}

/// Checks and returns the data sets of a scenario; `None` for each invalid one, whose problems are recorded.
pub(super) fn resolve(check: Check<'_>, settings: &Named<DatasetSettings>) -> Vec<Option<Dataset>> {
    let one = |(name, field): &(String, Field<DatasetSettings>)| {
        let (at, settings) = field.given()?;
        settings.resolve(check, at, name)
    };
    settings.0.iter().map(one).collect()
}

impl DatasetSettings {
    fn resolve(&self, check: Check<'_>, at: NodeId, name: &str) -> Option<Dataset> {
        let samples = check.required(at, &self.samples, "samples", "write `samples = 60000`");
        let remedy = "write `sample_size = \"784 B\"`";
        check.required(at, &self.sample_size, "sample_size", remedy);
        let size = self.sample_size.given().and_then(|(at, size)| {
            let size = size.resolve(check, at)?;
            if size.mean() == 0.0 {
                check.wrong(at, "samples without bytes cannot be read", remedy);
                return None;
            }
            Some(size)
        });
        let layout = match self.layout.given() {
            Some((at, layout)) => layout.resolve(check, at)?,
            None => Layout::FilePerSample,
        };
        if let (Some(layout), Some((at, _))) = (self.layout.get(), self.sample_size.given())
            && layout.needs_one_size()
            && !matches!(size, None | Some(Distribution::Constant(_)))
        {
            let remedy = "write one size, or `layout.shards = { samples = 1000 }`";
            check.wrong(at, "`layout.raw` needs samples that all have the same size", remedy);
        }
        let ranges = self.layout.get().and_then(|layout| layout.ranges(check, size.as_ref()));
        let image = match self.image.given() {
            Some((at, image)) => Some(image.resolve(check, at)?),
            None => None,
        };
        let dataset = Dataset {
            name: name.to_owned(),
            samples: samples?.0,
            sizes: SampleSizes::Drawn(size?),
            decoded_size: self.decoded_size.get().map(|size| size.0),
            layout,
            ranges,
            order: self.order.get().copied().unwrap_or(SampleOrder::Shuffled),
            image,
        };
        if let Some((at, layout)) = self.layout.given() {
            layout.check(check, at, self.sample_size.at, &dataset);
        }
        Some(dataset)
    }
}
