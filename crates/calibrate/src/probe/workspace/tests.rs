//! Tests of workspaces and of the removal of those that dead processes have left.

use super::*;

fn entries(path: &Path) -> usize {
    fs::read_dir(path).unwrap().count()
}

#[test]
fn a_dropped_workspace_is_removed_with_its_contents() {
    let parent = tempfile::tempdir().unwrap();
    let (workspace, notes) = Workspace::create(parent.path()).unwrap();
    assert!(notes.is_empty());
    let probe = workspace.directory("read").unwrap();
    fs::write(probe.join("file"), "x").unwrap();
    workspace.clear("read");
    assert!(!probe.exists());
    fs::write(workspace.directory("cache").unwrap().join("file"), "x").unwrap();
    drop(workspace);
    assert_eq!(entries(parent.path()), 0);
}

/// Makes a workspace as if another process had left it.
fn left(parent: &Path, name: &str, marker: &str) -> PathBuf {
    let path = parent.join(name);
    fs::create_dir(&path).unwrap();
    fs::write(path.join(MARKER), format!("{marker}\n")).unwrap();
    fs::write(path.join("big"), "x").unwrap();
    path
}

#[test]
fn only_workspaces_of_dead_processes_are_removed() {
    let (place, here) = (tempfile::tempdir().unwrap(), Identity::here());
    let parent = place.path();
    let of = |of: Identity| of.line();
    let dead = left(parent, "forebay-calibration-1", &of(here.clone()));
    let earlier = Identity { boot: "b".into(), ..here.clone() };
    let rebooted = left(parent, "forebay-live-2", &of(earlier.clone()));
    let old_version = left(parent, "forebay-live-3", &format!("3 {}", here.boot));
    let stranger = left(parent, "forebay-live-4", &of(Identity { machine: "m".into(), ..earlier }));
    let unknown = left(parent, "forebay-live-5", "5 another-boot");
    let foreign = parent.join("forebay-calibration-notes");
    let other = parent.join("data");
    for path in [&foreign, &other] {
        fs::create_dir(path).unwrap();
    }
    fs::write(foreign.join("mine.txt"), "x").unwrap();
    let (workspace, notes) = Workspace::create(parent).unwrap();
    assert!(!dead.exists() && !rebooted.exists() && !old_version.exists());
    assert!(stranger.exists() && unknown.exists() && foreign.exists() && other.exists());
    assert_eq!(notes.len(), 6, "{notes:?}");
    let theirs = notes.iter().filter(|note| note.contains("may be another machine's")).count();
    assert_eq!(theirs, 2, "{notes:?}");
    let (live, notes) = Workspace::for_runs(parent).unwrap();
    assert!(live.path.to_string_lossy().contains("forebay-live-") && notes.len() == 4);
    assert!(matches!(state(&workspace.path, &here), State::Alive), "this process lives");
}

#[test]
fn a_new_workspace_is_not_removed_before_its_process_has_locked_it() {
    // System: one process has made a workspace and not locked it yet; another one starts. Expectation: the
    // second one leaves it alone, and both have their workspaces.
    let (place, here) = (tempfile::tempdir().unwrap(), Identity::here());
    let new = New::make(place.path(), &here).unwrap();
    let (second, notes) = Workspace::for_runs(place.path()).unwrap();
    assert!(new.path.exists() && notes.is_empty(), "{notes:?}");
    let first = new.publish(PREFIXES[1], place.path(), &here).unwrap();
    let (_third, notes) = Workspace::for_runs(place.path()).unwrap();
    assert_eq!(notes.len(), 2, "both are in use: {notes:?}");
    assert!(first.path.exists() && second.path.exists());
}

#[test]
fn unfinished_workspaces_of_dead_processes_are_removed() {
    let (place, here) = (tempfile::tempdir().unwrap(), Identity::here());
    // No process has this number: it is larger than Linux's largest.
    let dead = Identity { process: 1 << 30, ..here.clone() };
    let elsewhere = Identity { boot: "b".into(), ..dead.clone() };
    let ours = New::make(place.path(), &dead).unwrap();
    let theirs = New::make(place.path(), &elsewhere).unwrap();
    remove_leftovers(place.path(), &here).unwrap();
    assert!(!ours.path.exists() && theirs.path.exists());
}

/// Makes a directory look as if nothing had changed in it for days.
fn age(path: &Path) {
    let days_ago = std::time::SystemTime::now() - 3 * MADE_BY_THEN;
    File::open(path).unwrap().set_modified(days_ago).unwrap();
}

#[test]
fn unfinished_workspaces_of_an_earlier_boot_are_removed() {
    // System: processes of an earlier boot were killed before they gave their workspaces a name. One
    // workspace has a marker, one an empty marker, one none. Expectation: each workspace is removed once
    // its process is surely dead; workspaces of processes that may be alive and foreign directories stay.
    let (place, here) = (tempfile::tempdir().unwrap(), Identity::here());
    let parent = place.path();
    let earlier = Identity { boot: "b".into(), ..here.clone() };
    let stranger = Identity { machine: "m".into(), ..earlier.clone() };
    let name = |number: u32| format!("{HIDDEN}{number}-0123abcd");
    let marked = left(parent, &name(1), &earlier.line());
    let bare: Vec<PathBuf> = (2..5).map(|number| parent.join(name(number))).collect();
    bare.iter().for_each(|path| fs::create_dir(path).unwrap());
    fs::write(bare[1].join(MARKER), "").unwrap();
    bare[..2].iter().for_each(|path| age(path));
    let theirs = left(parent, &name(6), &stranger.line());
    let foreign = parent.join(name(7));
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("mine.txt"), "x").unwrap();
    let alive = left(parent, &name(8), &earlier.line());
    let lock = File::open(alive.join(MARKER)).unwrap();
    lock.try_lock().unwrap();
    [&theirs, &foreign, &alive].into_iter().for_each(|path| age(path));
    let (_workspace, notes) = Workspace::create(parent).unwrap();
    assert!(!marked.exists() && !bare[0].exists() && !bare[1].exists(), "{notes:?}");
    assert!(bare[2].exists(), "its process may be writing its marker right now");
    assert!(theirs.exists() && foreign.exists() && alive.exists());
    let removed = notes.iter().filter(|note| note.contains("left by a run that was killed"));
    assert_eq!((removed.count(), notes.len()), (3, 4), "{notes:?}");
}

#[test]
fn workspaces_created_concurrently_do_not_remove_each_other() {
    let place = tempfile::tempdir().unwrap();
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for _ in 0..50 {
                    let (workspace, _) = Workspace::for_runs(place.path()).unwrap();
                    fs::write(workspace.directory("d").unwrap().join("f"), "x").unwrap();
                    assert!(workspace.path.join(MARKER).exists());
                }
            });
        }
    });
    assert_eq!(entries(place.path()), 0);
}

#[test]
fn too_little_space_is_reported_with_the_needed_space() {
    let parent = tempfile::tempdir().unwrap();
    let (workspace, _) = Workspace::create(parent.path()).unwrap();
    workspace.room(4096).unwrap();
    let message = workspace.room(1 << 60).unwrap_err().to_string();
    assert!(message.contains("1210567579837.2 MB are needed"), "{message}");
    let missing = Workspace::create(&parent.path().join("none")).unwrap_err().to_string();
    assert!(missing.contains("cannot use the directory"), "{missing}");
}
