//! Reads published results from files; the first problem is an error.

use super::{Cluster, Data, Precision, Published, PublishedResult, Quantity};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;

/// Why a file of published results cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct PublishedError {
    /// Name of the file.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong, and what to write.
    pub what: String,
}

/// Byte range in the text, and what is wrong there.
pub(super) type Wrong = (Range<usize>, String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) cluster: BTreeMap<String, FileCluster>,
    pub(super) series: Vec<Series>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileCluster {
    pub(super) about: String,
    pub(super) gpu: Spanned<String>,
    pub(super) gpus_per_node: Spanned<u32>,
    pub(super) inside: Spanned<String>,
    pub(super) network: Option<Spanned<String>>,
    pub(super) nics: Option<Spanned<u32>>,
    pub(super) switch: Option<Spanned<u32>>,
    pub(super) between: Option<Spanned<String>>,
    pub(super) site: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Series {
    pub(super) name: Spanned<String>,
    pub(super) cluster: Spanned<String>,
    pub(super) model: Spanned<String>,
    pub(super) precision: Precision,
    pub(super) batch: Spanned<u32>,
    pub(super) data: Data,
    pub(super) transport: Spanned<String>,
    pub(super) framework: String,
    pub(super) quantity: Spanned<Quantity>,
    pub(super) unit: Spanned<String>,
    pub(super) baseline: Option<Spanned<u32>>,
    pub(super) samples: Option<Spanned<u64>>,
    pub(super) source: Spanned<String>,
    pub(super) url: String,
    pub(super) provenance: String,
    pub(super) verified: bool,
    #[serde(default)]
    pub(super) note: String,
    pub(super) results: Spanned<Vec<Spanned<Row>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) gpus: u32,
    pub(super) measured: f64,
    #[serde(default)]
    pub(super) fit: bool,
}

impl Published {
    /// Reads and checks the text of a file; messages call it `name`.
    ///
    /// # Errors
    /// If the text is no TOML of this form, names something that the catalogue does not have, contains something twice, or has
    /// a value that no measurement can have.
    pub fn parse(name: &str, text: &str) -> Result<Published, PublishedError> {
        let refuse = |(at, what): Wrong| PublishedError {
            file: name.to_owned(),
            line: line_of(text, at.start),
            what,
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let what = error.message().replace('\n', ", ");
            refuse((
                error.span().unwrap_or(0..0),
                format!("cannot be used: {what}; correct this entry"),
            ))
        })?;
        file.check().map_err(refuse)?;
        let results = file.series.iter().flat_map(|series| series.rows(text)).collect();
        let named = |(name, cluster): (String, FileCluster)| {
            let cluster = cluster.named(&name);
            (name, cluster)
        };
        let clusters = file.cluster.into_iter().map(named);
        Ok(Published { clusters: clusters.collect(), results })
    }
}

impl FileCluster {
    fn named(self, name: &str) -> Cluster {
        let of = self;
        Cluster {
            about: of.about,
            gpu: of.gpu.into_inner(),
            gpus_per_node: of.gpus_per_node.into_inner(),
            inside: of.inside.into_inner(),
            network: of.network.map(Spanned::into_inner),
            nics: of.nics.map_or(1, Spanned::into_inner),
            switch: of.switch.map(Spanned::into_inner),
            between: of.between.map(Spanned::into_inner),
            site: of.site.unwrap_or_else(|| name.to_owned()),
        }
    }
}

impl Series {
    fn rows<'a>(&'a self, text: &'a str) -> impl Iterator<Item = PublishedResult> + 'a {
        self.results.get_ref().iter().map(|row| PublishedResult {
            series: self.name.get_ref().clone(),
            cluster: self.cluster.get_ref().clone(),
            model: self.model.get_ref().clone(),
            precision: self.precision,
            batch: *self.batch.get_ref(),
            data: self.data,
            transport: self.transport.get_ref().clone(),
            framework: self.framework.clone(),
            gpus: row.get_ref().gpus,
            quantity: *self.quantity.get_ref(),
            baseline: self.baseline.as_ref().map_or(1, |baseline| *baseline.get_ref()),
            samples: self.samples.as_ref().map(|samples| *samples.get_ref()),
            measured: row.get_ref().measured,
            fit: row.get_ref().fit,
            verified: self.verified,
            source: self.source.get_ref().clone(),
            url: self.url.clone(),
            provenance: self.provenance.clone(),
            note: self.note.clone(),
            line: line_of(text, row.span().start),
        })
    }
}

/// Returns the line that contains a byte of a text, from 1.
fn line_of(text: &str, byte: usize) -> usize {
    text.get(..byte).unwrap_or(text).matches('\n').count() + 1
}
