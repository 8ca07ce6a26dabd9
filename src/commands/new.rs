//! `forebay new`: writes a first scenario, recipe or plan from a few answers.

use super::paths::Paths;
use super::questions::{self, Questions, number};
use super::{Failure, output};
use crate::cli::{New, NewKind, NewPlan, NewPlot, NewScenario};
use crate::input::{shell_word, shown};
use crate::scenario::ScenarioFile;
use crate::template::{
    Choice, DATASETS, LOADERS, PROBES, PlanAnswers, PlotAnswers, STORAGES, ScenarioAnswers,
    TemplateError, find,
};
use std::io;
use std::path::{Path, PathBuf};

pub(super) fn execute(new: &New, quiet: bool) -> Result<(), Failure> {
    let target = match &new.kind {
        Some(NewKind::Plot(plot)) => &plot.target,
        Some(NewKind::Plan(plan)) => &plan.target,
        Some(NewKind::Scenario(scenario)) => &scenario.target,
        None => &new.scenario.target,
    };
    // A file that cannot be written is reported before any question is asked.
    if let Some(path) = &target.output {
        check(path, target.force)?;
    }
    let (mut input, mut out) = (io::stdin().lock(), io::stderr());
    let asks = !target.yes && questions::is_terminal();
    let mut ask = Questions::on(if asks { Some((&mut input, &mut out)) } else { None });
    let (text, name, next) = match &new.kind {
        Some(NewKind::Plot(new)) => (plot(new, &mut ask)?, "figure".to_owned(), "plot"),
        Some(NewKind::Plan(new)) => (plan(new, &mut ask)?, "plan".to_owned(), "calibrate --plan"),
        Some(NewKind::Scenario(new)) => scenario(new, &mut ask)?,
        None => scenario(&new.scenario, &mut ask)?,
    };
    let usual = format!("{name}.toml");
    let as_path = |answer: &str| Ok(PathBuf::from(answer));
    let asked = ask.ask("File to write", &usual, target.output.clone(), as_path)?;
    match asked.or(asks.then(|| PathBuf::from(&usual))) {
        None => output::stdout(text.as_bytes()),
        Some(path) if path == Path::new("-") => output::stdout(text.as_bytes()),
        Some(path) => {
            check(&path, target.force)?;
            output::file(&path, |to| to.write_all(text.as_bytes()))?;
            let path = shown(&path);
            let word = shell_word(&path);
            output::warn(quiet, &format!("wrote {path}; next: forebay {next} {word}"));
            Ok(())
        }
    }
}

/// Checks that `path` can be written, and that no file is there unless `force` is set.
fn check(path: &Path, force: bool) -> Result<(), Failure> {
    output::check(Some(path).filter(|path| **path != *Path::new("-")))?;
    match !force && path.is_file() {
        true => Err(Failure::Input(format!(
            "cannot write {}: the file already exists; write --force to replace the file, or choose another name",
            shown(path)
        ))),
        false => Ok(()),
    }
}

/// Converts a problem of an answer into a failure.
fn refuse(error: TemplateError) -> Failure {
    Failure::Input(error.to_string())
}

/// Returns the names of choices, separated by commas, for a question.
fn names(choices: &[Choice]) -> String {
    choices.iter().map(|of| of.name).collect::<Vec<_>>().join(", ")
}

/// Asks for the answers that the options do not give. Returns the text of the scenario, its name, and the command that uses it.
fn scenario(
    new: &NewScenario,
    ask: &mut Questions<'_>,
) -> Result<(String, String, &'static str), Failure> {
    let usual = ScenarioAnswers::default();
    let choice = |what: &'static str, choices: &'static [Choice]| {
        move |answer: &str| find(what, choices, answer).map(|of| of.name.to_owned())
    };
    let question = "Model of the catalogue, or unet3d or cosmoflow of MLPerf Storage";
    let model = ask.ask(question, &usual.model, new.model.clone(), |answer| {
        ScenarioAnswers::check_model(answer).map(str::to_owned)
    })?;
    let model = model.unwrap_or(usual.model);
    let of_model = ScenarioAnswers::usual_dataset(&model);
    let question = format!("Data set ({})", names(&DATASETS));
    let dataset =
        ask.ask(&question, of_model, new.dataset.clone(), choice("data set", &DATASETS))?;
    let question = format!("Storage ({})", names(&STORAGES));
    let storage =
        ask.ask(&question, &usual.storage, new.storage.clone(), choice("storage", &STORAGES))?;
    let question = format!("Loader ({})", names(&LOADERS));
    let loader =
        ask.ask(&question, &usual.loader, new.loader.clone(), choice("loader", &LOADERS))?;
    let nodes = ask.ask("Nodes", &usual.nodes.to_string(), new.nodes, number)?;
    let gpus = ask.ask("GPUs of each node", &usual.gpus.to_string(), new.gpus, number)?;
    let gpu = ask.ask("GPU of the catalogue", &usual.gpu, new.gpu.clone(), |answer| {
        ScenarioAnswers::check_gpu(answer).map(|of| of.name.to_owned())
    })?;
    let answers = ScenarioAnswers {
        name: new.name.clone(),
        loader: loader.unwrap_or(usual.loader),
        storage: storage.unwrap_or(usual.storage),
        gpus: gpus.unwrap_or(usual.gpus),
        nodes: nodes.unwrap_or(usual.nodes),
        gpu: gpu.unwrap_or(usual.gpu),
        model,
        dataset,
        batch: new.batch,
        workers: new.workers,
    };
    let text = answers.text().map_err(refuse)?;
    let storage = find("storage", &STORAGES, &answers.storage).map_err(refuse)?.name;
    Ok((text, format!("{}-{storage}", answers.model), "run"))
}

/// Asks for the answers that the options do not give, and returns the text of the recipe.
fn plot(new: &NewPlot, ask: &mut Questions<'_>) -> Result<String, Failure> {
    let file = |answer: &str| match Path::new(answer).is_file() {
        true => Ok(PathBuf::from(answer)),
        false => Err(TemplateError(format!("there is no file {}", shown(Path::new(answer))))),
    };
    let scenario = ask.ask("Scenario", "none", new.scenario.clone(), file)?;
    let Some(scenario) = scenario else {
        let what = "a recipe draws a scenario: write --scenario FILE";
        return Err(Failure::Input(format!(
            "{what}; `forebay new scenario` creates a scenario file"
        )));
    };
    let file = new.target.output.as_ref().filter(|path| path.as_path() != Path::new("-"));
    let paths = Paths::default().reads("the scenario", &scenario).writes("--output", file)?;
    paths.prints(file.is_none()).check()?;
    let opened = ScenarioFile::open(&scenario)?;
    let given = Some(new.columns.clone()).filter(|columns| !columns.is_empty());
    let columns = ask.ask("Columns to draw", "the usual ones", given, |answer| {
        let names = answer.split(',').map(|name| name.trim().to_owned());
        let names: Vec<String> = names.collect();
        names.iter().try_for_each(|name| PlotAnswers::check_column(name))?;
        Ok(names)
    })?;
    let answers = PlotAnswers {
        scenario: beside(&scenario, new.target.output.as_deref()),
        columns: columns.unwrap_or_default(),
        x: new.x.clone(),
        group: new.group.clone(),
        title: new.title.clone(),
    };
    answers.text(&opened).map_err(refuse)
}

/// Returns the path by which the file `recipe` names `scenario`: its file name if both are in the same directory, otherwise its
/// absolute path.
fn beside(scenario: &Path, recipe: Option<&Path>) -> String {
    let folder = |path: &Path| {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        path.parent().map(Path::to_owned)
    };
    let here = recipe.map_or_else(|| folder(Path::new("recipe.toml")), folder);
    let path = match scenario.file_name() {
        Some(name) if folder(scenario) == here => PathBuf::from(name),
        _ => std::path::absolute(scenario).unwrap_or_else(|_| scenario.to_owned()),
    };
    path.to_string_lossy().into_owned()
}

/// Asks for the answers that the options do not give, and returns the text of the plan.
fn plan(new: &NewPlan, ask: &mut Questions<'_>) -> Result<String, Failure> {
    let usual = PlanAnswers::default();
    let gpus = ask.ask("GPUs to measure", &usual.gpus.to_string(), new.gpus, number)?;
    let gpus = gpus.unwrap_or(usual.gpus);
    let given = Some(new.probes.clone()).filter(|probes| !probes.is_empty());
    let question = format!("Probes ({})", names(&PROBES));
    let probes = ask.ask(&question, "all", given, |answer| {
        let names = answer.split(',').map(|name| find("probe", &PROBES, name));
        names.map(|of| of.map(|of| of.name.to_owned())).collect()
    })?;
    let budget =
        ask.ask("Time for all", &usual.budget, new.budget.clone(), |answer| Ok(answer.to_owned()))?;
    let probes = probes.unwrap_or_default();
    PlanAnswers { probes, gpus, budget: budget.unwrap_or(usual.budget) }.text().map_err(refuse)
}
