//! A host process that makes a box and then waits to be killed.

use std::os::fd::AsFd;
use std::path::Path;

use holm_sandbox_linux::{Engine, EngineError, Lifetime, OnDisconnect};

use crate::support::{command, run_in, spec, start_piped, start_silent};

/// Makes a box in the given folder, or says why not.
pub(super) fn try_to_create(directory: &str) {
    let engine = Engine::start().unwrap();
    let spec = spec(&engine, Path::new(directory));
    match engine.create(&spec) {
        Ok(inner) => {
            inner.stop().unwrap();
            eprintln!("made a box");
        }
        Err(error) => {
            eprintln!("error: {error}");
            let cause = std::error::Error::source(&error);
            cause
                .iter()
                .for_each(|cause| eprintln!("caused by: {cause}"));
            if let EngineError::HostLacks { hint, .. } = error {
                eprintln!("hint: {hint}");
            }
        }
    }
}

/// `argument` is a folder for the box, what the box should run, and whether it outlives this process.
pub(super) fn run(argument: &str) {
    let parts: Vec<&str> = argument.split('\n').collect();
    let [directory, script, lifetime] = parts.as_slice() else {
        panic!("{argument}")
    };
    let engine = Engine::start().unwrap();
    let mut spec = spec(&engine, Path::new(directory));
    if matches!(*lifetime, "kept" | "parked") {
        spec.lifetime = Lifetime::UntilStopped;
    }
    let inner = engine.create(&spec).unwrap();
    if matches!(*lifetime, "kept" | "parked" | "listening") {
        inner.listen(&Path::new(directory).join("socket")).unwrap();
    }
    if *lifetime == "once" {
        let output = run_in(&inner, &command(&["sh", "-c", script]), None);
        eprintln!("{}{}", output.stdout, output.stderr);
        inner.stop().unwrap();
        return;
    }
    let mut command = command(&["sh", "-c", script]);
    if *lifetime == "parked" {
        // Would be ended with this process, were it not parked.
        let (job, stdout, stderr) = start_piped(&inner, &command);
        job.park(&inner, "it", &[stdout.as_fd(), stderr.as_fd()])
            .unwrap();
        eprintln!("{} {}", inner.id(), inner.pid());
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
        return;
    }
    command.disconnect = OnDisconnect::Keep;
    let job = start_silent(&inner, &command).unwrap();
    eprintln!("{} {}", inner.id(), inner.pid());
    // Ends by a signal, or by the end of the test that would have sent it.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
    drop(job);
}
