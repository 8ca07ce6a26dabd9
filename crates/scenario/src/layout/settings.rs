//! Settings of a data set's `layout`.

use super::{Framing, Layout, Ranges, RowGroups};
use crate::check::Check;
use crate::document::{NodeId, ROOT};
use crate::field::Field;
use crate::number::{Amount, Count, Factor, Positive};
use crate::role::Role;
use crate::{Dataset, Distribution};
use forebay_model::units::{Size, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Default size of a request [B].
const REQUEST: f64 = 1_048_576.0;
/// Maximum number of requests for a mean sample, because simulating each request takes time.
const MOST_REQUESTS: f64 = 1e6;
/// Framing of a record in TensorFlow's files: its length and two checksums [B].
const TFRECORD: Framing = Framing { header: 16, block: 0 };
/// Size of a block in a tar file, which is also the size of a header [B].
const TAR: u32 = 512;
/// Default page size of a B-tree [B].
const PAGE: u64 = 4096;

/// How samples are packed into files.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LayoutSettings {
    /// Each sample is a file.
    FilePerSample(RangeSettings),
    /// Samples lie one behind the other in shards.
    Shards(ShardSettings),
    /// TensorFlow's record files: shards, with 16 B around each sample.
    Tfrecord(ShardSettings),
    /// Tar files: shards, with a header and padding to 512 B around each member of a sample.
    Webdataset(WebdatasetSettings),
    /// One file with an array of samples that all have the same size, each read by itself.
    Raw(RangeSettings),
    /// A B-tree in one file that is mapped into memory, each sample read in whole pages.
    Lmdb(LmdbSettings),
    /// Files of row groups, each row group read and decompressed as a whole.
    Parquet(ParquetSettings),
}

/// Requests for samples that are read one by one.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RangeSettings {
    /// Size of one request: a larger sample is fetched in several requests (default: each sample is fetched in one
    /// request).
    #[schemars(extend("x-role" = Role::Choice))]
    request: Field<Positive<Size>>,
    /// Number of requests that a reader has in progress at once (default: 1, one after the other).
    #[schemars(extend("x-role" = Role::Limit))]
    readahead: Field<Count<1, 10_000>>,
}

/// Samples lie one behind the other in shards.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShardSettings {
    /// Samples in a shard.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Choice))]
    samples: Field<Count<1, 1_000_000_000_000>>,
    /// Size of one request (default: "1 MiB").
    #[schemars(extend("x-role" = Role::Choice))]
    request: Field<Positive<Size>>,
}

/// Tar files.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebdatasetSettings {
    /// Samples in a shard.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Choice))]
    samples: Field<Count<1, 1_000_000_000_000>>,
    /// Size of one request (default: "1 MiB").
    #[schemars(extend("x-role" = Role::Choice))]
    request: Field<Positive<Size>>,
    /// Number of files in the tar file for each sample; all but the first, such as labels, take one block of 512 B
    /// (default: 1).
    #[schemars(extend("x-role" = Role::Identity))]
    members: Field<Count<1, 1000>>,
}

/// A B-tree in one file.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LmdbSettings {
    /// Size of a page of the B-tree, which is the page size of the system's memory (default: "4 KiB").
    #[schemars(extend("x-role" = Role::Identity))]
    page: Field<Positive<Size>>,
}

/// Files of row groups.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParquetSettings {
    /// Samples in a row group.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Choice))]
    row_group: Field<Count<1, 1_000_000_000_000>>,
    /// Row groups in a file (default: 1).
    #[schemars(extend("x-role" = Role::Choice))]
    row_groups: Field<Count<1, 1_000_000>>,
    /// Column chunks that are read from each row group, each by one request (default: 1).
    #[schemars(extend("x-role" = Role::Identity))]
    columns: Field<Count<1, 100_000>>,
    /// Share of a row group's bytes that is read (default: 1).
    #[schemars(extend("x-role" = Role::Limit))]
    read: Field<Factor>,
    /// Core-seconds to decompress each byte that is read, all before the row group's first sample is available
    /// (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    decompress: Field<Amount<Time>>,
}

impl LayoutSettings {
    /// Checks the table at document node `at` and returns its layout; `None` if the table is invalid.
    pub(crate) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Layout> {
        let inside = check.inside(at);
        match self {
            Self::FilePerSample(_) => Some(Layout::FilePerSample),
            Self::Shards(of) => shards(check, inside, &of.samples, &of.request, Framing::NONE),
            Self::Tfrecord(of) => shards(check, inside, &of.samples, &of.request, TFRECORD),
            Self::Webdataset(of) => {
                let members = of.members.get().map_or(1, |members| members.small());
                let record = Framing { header: TAR + (members - 1) * 2 * TAR, block: TAR };
                shards(check, inside, &of.samples, &of.request, record)
            }
            Self::Raw(_) => Some(Layout::OneFile { record: Framing::NONE, opened: true }),
            Self::Lmdb(of) => of.resolve(check),
            Self::Parquet(of) => of.resolve(check, inside),
        }
    }

    /// Returns the requests that fetch a sample in pieces; `None` if a sample is one request or is not read by
    /// itself. Remarks on keys that have no effect if samples have these `sizes`.
    pub(crate) fn ranges(&self, check: Check<'_>, sizes: Option<&Distribution>) -> Option<Ranges> {
        let (Self::FilePerSample(of) | Self::Raw(of)) = self else { return None };
        let useless = |at: Option<NodeId>, why: &str| {
            if let Some(at) = at.filter(|_| !check.lenient) {
                let path = check.document.path(at);
                check.remark(format!("`{path}` has no effect: {why}."));
            }
        };
        let Some(request) = of.request.get().map(|request| request.0) else {
            useless(of.readahead.at, "each sample is one request, unless `request` is written");
            return None;
        };
        if matches!(sizes, Some(Distribution::Constant(size)) if *size <= request) {
            useless(of.request.at, "no sample is larger than this");
        }
        let readahead = of.readahead.get().map_or(1, |number| number.small());
        Some(Ranges { request, readahead })
    }

    /// Checks that a mean request has at least one byte, and that a mean sample of `dataset` takes no more requests
    /// than can be simulated. `size` is the document node of the samples' size.
    pub(crate) fn check(
        &self,
        check: Check<'_>,
        at: NodeId,
        size: Option<NodeId>,
        dataset: &Dataset,
    ) {
        let (requests, request) = (dataset.requests_per_sample(), dataset.mean_request());
        let (key, written) = self.request_key();
        let at = check.blame(&[written, size], at);
        if requests > MOST_REQUESTS && requests.is_finite() {
            let what = format!("a mean sample takes {requests:.2e} requests");
            check.wrong(
                at,
                what,
                format!("write {key}: a mean sample may take at most 1e6 requests"),
            );
        } else if request < 1.0 {
            let what = "a mean request is for less than a byte";
            check.wrong(at, what, format!("write {key}: a mean request must be for at least 1 B"));
        }
    }

    /// Returns the remedy for requests that are too small, in words, and the document node of the key that sets the
    /// size of requests.
    fn request_key(&self) -> (&'static str, Option<NodeId>) {
        const REQUEST: &str = "a larger `request`";
        match self {
            Self::FilePerSample(of) | Self::Raw(of) => (REQUEST, of.request.at),
            Self::Shards(of) | Self::Tfrecord(of) => (REQUEST, of.request.at),
            Self::Webdataset(of) => (REQUEST, of.request.at),
            Self::Lmdb(of) => ("larger samples", of.page.at),
            Self::Parquet(of) => ("fewer `columns` or a larger `row_group`", of.columns.at),
        }
    }

    /// Returns whether this layout needs samples that all have the same size.
    pub(crate) fn needs_one_size(&self) -> bool {
        matches!(self, Self::Raw(_))
    }
}

fn shards(
    check: Check<'_>,
    at: NodeId,
    samples: &Field<Count<1, 1_000_000_000_000>>,
    request: &Field<Positive<Size>>,
    record: Framing,
) -> Option<Layout> {
    let samples = check.required(at, samples, "samples", "write `samples = 1000`")?;
    let request = request.get().map_or(REQUEST, |request| request.0);
    Some(Layout::Shards { samples_per_shard: samples.0, request, record })
}

impl LmdbSettings {
    fn resolve(&self, check: Check<'_>) -> Option<Layout> {
        let page = self.page.get().map_or(PAGE, |page| page.whole());
        let Ok(block) = u32::try_from(page) else {
            let at = self.page.at.unwrap_or(ROOT);
            check.wrong(at, "the page is too large", "write \"4 KiB\" or \"64 KiB\"");
            return None;
        };
        Some(Layout::OneFile { record: Framing { header: 0, block }, opened: false })
    }
}

impl ParquetSettings {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Layout> {
        let remedy = "write `row_group = 1000`";
        let samples = check.required(at, &self.row_group, "row_group", remedy)?;
        let read = self.read.get().map_or(1.0, |read| read.0);
        if let Some((at, _)) = self.read.given().filter(|_| read > 1.0) {
            let what = format!("{read} is more than a whole row group");
            check.wrong(at, what, "write a share of at most 1");
        }
        Some(Layout::RowGroups(RowGroups {
            samples: samples.0,
            per_file: self.row_groups.get().map_or(1, |number| number.small()),
            columns: self.columns.get().map_or(1, |number| number.small()),
            read: read.min(1.0),
            decompress: self.decompress.get().map_or(0.0, |time| time.0),
        }))
    }
}
