//! Published results in files: read whole, refused at the first problem.

use super::{Cluster, Data, Precision, Published, PublishedResult, Quantity};
use crate::catalogue::{GPUS, INTERCONNECTS, MODELS};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use toml::Spanned;

/// Why a file is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct PublishedError {
    /// The file.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong, and what to write.
    pub what: String,
}

/// A place in the text, and what is wrong there.
type Wrong = (Range<usize>, String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cluster: BTreeMap<String, FileCluster>,
    series: Vec<Series>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCluster {
    about: String,
    gpu: Spanned<String>,
    gpus_per_node: Spanned<u32>,
    inside: Spanned<String>,
    network: Option<Spanned<String>>,
    nics: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Series {
    name: Spanned<String>,
    cluster: Spanned<String>,
    model: Spanned<String>,
    precision: Precision,
    batch: Spanned<u32>,
    data: Data,
    transport: Spanned<String>,
    framework: String,
    quantity: Spanned<Quantity>,
    unit: Spanned<String>,
    baseline: Option<Spanned<u32>>,
    samples: Option<Spanned<u64>>,
    source: Spanned<String>,
    url: String,
    provenance: String,
    verified: bool,
    #[serde(default)]
    note: String,
    results: Spanned<Vec<Spanned<Row>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    gpus: u32,
    measured: f64,
    #[serde(default)]
    fit: bool,
}

impl Published {
    /// Reads and checks the text of a file; `name` stands for it in messages.
    ///
    /// # Errors
    /// If it is no TOML of this form, names what the catalogue does not have, says the same twice, or has a
    /// value that nobody measured.
    pub fn parse(name: &str, text: &str) -> Result<Published, PublishedError> {
        let refuse = |(at, what): Wrong| PublishedError {
            file: name.to_owned(),
            line: line_of(text, at.start),
            what,
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let what = error.message().replace('\n', ", ");
            refuse((error.span().unwrap_or(0..0), format!("cannot be used: {what}; correct it")))
        })?;
        file.check().map_err(refuse)?;
        let results = file.series.iter().flat_map(|series| series.rows(text)).collect();
        let clusters = file.cluster.into_iter().map(|(name, cluster)| (name, cluster.into()));
        Ok(Published { clusters: clusters.collect(), results })
    }
}

impl File {
    fn check(&self) -> Result<(), Wrong> {
        self.cluster.values().try_for_each(FileCluster::check)?;
        let mut names = BTreeSet::new();
        for series in &self.series {
            if !names.insert(series.name.get_ref()) {
                let what = format!("two series are named {:?}; rename one", series.name.get_ref());
                return Err((series.name.span(), what));
            }
            let clusters = self.cluster.keys().map(String::as_str);
            known(&series.cluster, "cluster of this file", clusters)?;
            series.check(&self.cluster[series.cluster.get_ref()])?;
        }
        Ok(())
    }
}

impl FileCluster {
    fn check(&self) -> Result<(), Wrong> {
        known(&self.gpu, "GPU of the catalogue", GPUS.iter().map(|gpu| gpu.name))?;
        let links = || INTERCONNECTS.iter().map(|link| link.name);
        known(&self.inside, "interconnect of the catalogue", links())?;
        if let Some(network) = &self.network {
            known(network, "interconnect of the catalogue", links())?;
        }
        positive(&self.gpus_per_node, 1024)?;
        self.nics.as_ref().map_or(Ok(()), |nics| positive(nics, 1024))
    }
}

impl From<FileCluster> for Cluster {
    fn from(of: FileCluster) -> Cluster {
        Cluster {
            about: of.about,
            gpu: of.gpu.into_inner(),
            gpus_per_node: of.gpus_per_node.into_inner(),
            inside: of.inside.into_inner(),
            network: of.network.map(Spanned::into_inner),
            nics: of.nics.map_or(1, Spanned::into_inner),
        }
    }
}

impl Series {
    fn check(&self, cluster: &FileCluster) -> Result<(), Wrong> {
        known(&self.model, "model of the catalogue", MODELS)?;
        positive(&self.batch, 1_000_000)?;
        for (text, key) in
            [(&self.name, "name"), (&self.transport, "transport"), (&self.source, "source")]
        {
            if text.get_ref().trim().is_empty() {
                return Err((text.span(), format!("`{key}` is empty; write one")));
            }
        }
        self.check_quantity()?;
        if self.results.get_ref().is_empty() {
            let what = "it has no results; write `{ gpus = 8, measured = 1234.5 }`".to_owned();
            return Err((self.results.span(), what));
        }
        let mut before = BTreeSet::new();
        for row in self.results.get_ref() {
            self.check_row(row.get_ref(), cluster).map_err(|what| (row.span(), what))?;
            if !before.insert(row.get_ref().gpus) {
                let what = format!("two results are of {} GPUs; remove one", row.get_ref().gpus);
                return Err((row.span(), what));
            }
        }
        Ok(())
    }

    /// The unit, and what relative quantities and epochs need.
    fn check_quantity(&self) -> Result<(), Wrong> {
        let quantity = *self.quantity.get_ref();
        if self.unit.get_ref() != quantity.unit() {
            let what = format!("the unit of this quantity is \"{}\"; write that", quantity.unit());
            return Err((self.unit.span(), what));
        }
        let relative = matches!(quantity, Quantity::Efficiency | Quantity::StepGrowth);
        let epoch = quantity == Quantity::EpochTime;
        for (key, needed, there) in [
            ("baseline", relative, self.baseline.is_some()),
            ("samples", epoch, self.samples.is_some()),
        ] {
            match (needed, there) {
                (true, false) => {
                    return Err((self.quantity.span(), format!("it needs `{key}`; add it")));
                }
                (false, true) => {
                    return Err((
                        self.quantity.span(),
                        format!("it has no use for `{key}`; remove it"),
                    ));
                }
                _ => {}
            }
        }
        self.baseline.as_ref().map_or(Ok(()), |baseline| positive(baseline, 10_000_000))?;
        self.samples.as_ref().map_or(Ok(()), |samples| positive(samples, 1 << 50))
    }

    fn check_row(&self, row: &Row, cluster: &FileCluster) -> Result<(), String> {
        if !(1..=10_000_000).contains(&row.gpus) {
            return Err("write `gpus` as a number from 1 to 10000000".to_owned());
        }
        if !(row.measured > 0.0 && row.measured <= 1e12) {
            return Err("write `measured` as a number above 0, up to 1e12".to_owned());
        }
        let quantity = *self.quantity.get_ref();
        if quantity == Quantity::Efficiency && row.measured > 2.0 {
            return Err("write an efficiency as a share: 0.9".to_owned());
        }
        if row.fit && row.gpus == 1 && quantity == Quantity::Throughput {
            return Err("the throughput of one GPU is an input; remove `fit`".to_owned());
        }
        if row.gpus > *cluster.gpus_per_node.get_ref() && cluster.network.is_none() {
            let (per_node, name) = (cluster.gpus_per_node.get_ref(), self.cluster.get_ref());
            let what =
                format!("{} GPUs are more than one node of {name:?} has, {per_node}", row.gpus);
            return Err(format!("{what}; give the cluster a `network`"));
        }
        Ok(())
    }

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

/// Refuses a name that is none of those known.
fn known<'a>(
    name: &Spanned<String>,
    what: &str,
    all: impl IntoIterator<Item = &'a str>,
) -> Result<(), Wrong> {
    let all: Vec<&str> = all.into_iter().collect();
    let wanted = name.get_ref().as_str();
    if all.contains(&wanted) {
        return Ok(());
    }
    let near = all.iter().min_by_key(|one| strsim::damerau_levenshtein(one, wanted));
    let near = near.filter(|one| strsim::damerau_levenshtein(one, wanted) <= 3);
    let remedy = match near {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("write one of {}", all.join(", ")),
    };
    Err((name.span(), format!("{wanted:?} is no {what}; {remedy}")))
}

/// Refuses a number that is not 1 to `most`.
fn positive<T: Copy + PartialOrd + From<u32> + std::fmt::Display>(
    number: &Spanned<T>,
    most: T,
) -> Result<(), Wrong> {
    if (T::from(1)..=most).contains(number.get_ref()) {
        return Ok(());
    }
    Err((number.span(), format!("write a number from 1 to {most}")))
}

/// Line of a byte of a text, from 1.
fn line_of(text: &str, byte: usize) -> usize {
    text.get(..byte).unwrap_or(text).matches('\n').count() + 1
}
