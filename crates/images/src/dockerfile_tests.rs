//! Dockerfiles as people and SDKs write them.

use super::*;

fn description(text: &str) -> Option<(String, Vec<Change>)> {
    let parsed = Dockerfile::parse(text).unwrap();
    let (image, changes) = parsed.description()?;
    Some((image.to_owned(), changes))
}

fn configured(text: &str) -> ImageConfig {
    let mut config = ImageConfig {
        env: vec!["PATH=/bin".into(), "A=old".into()],
        cmd: vec!["base".into()],
        working_dir: Some("/base".into()),
        ..ImageConfig::default()
    };
    let (_, changes) = description(&format!("FROM x\n{text}")).unwrap();
    for change in changes {
        change.apply(&mut config);
    }
    config
}

#[test]
fn a_lone_from_needs_no_builder() {
    let arch = this_architecture();
    for text in [
        "FROM debian:12".to_owned(),
        "FROM debian:12\n".to_owned(),
        "\u{20}\u{20}from   debian:12  \r\n".to_owned(),
        "# syntax=docker/dockerfile:1\n\n# hello\nFROM debian:12 AS base\n# end".to_owned(),
        format!("FROM --platform=linux/{arch} debian:12"),
        "FROM --platform=$TARGETPLATFORM debian:12".to_owned(),
        "FROM \\\n# why not\n\n  debian:12".to_owned(),
        "ARG TAG=12\nFROM debian:$TAG".to_owned(),
        "ARG NAME=\"debian\"\nARG TAG=12\nFROM ${NAME}:${TAG}".to_owned(),
        "FROM debian:12\nLABEL a=\"b c\"".to_owned(),
    ] {
        assert_eq!(
            description(&text),
            Some(("debian:12".into(), vec![])),
            "{text}"
        );
    }
}

#[test]
fn what_only_describes_needs_no_builder() {
    let config = configured(
        "ENV A=1 B=2\nENV C three  words\nWORKDIR /app\nWORKDIR src\nUSER me:us\n\
         EXPOSE 80 53/udp\nCMD [\"run\", \"it\"]",
    );
    assert_eq!(config.env, ["PATH=/bin", "A=1", "B=2", "C=three  words"]);
    assert_eq!(config.working_dir.as_deref(), Some("/app/src"));
    assert_eq!(config.user.as_deref(), Some("me:us"));
    assert_eq!(config.exposed_ports, ["80/tcp", "53/udp"]);
    assert_eq!(config.cmd, ["run", "it"]);
    assert_eq!(
        configured("WORKDIR sub").working_dir.as_deref(),
        Some("/base/sub")
    );
    assert_eq!(configured("CMD run it").cmd, ["/bin/sh", "-c", "run it"]);
    let entry = configured("ENTRYPOINT [\"/entry\"]");
    assert_eq!(
        (entry.entrypoint, entry.cmd.len()),
        (vec!["/entry".into()], 0)
    );
}

#[test]
fn whatever_needs_interpretation_goes_to_the_builder() {
    for text in [
        "RUN make",
        "COPY a b",
        "ADD a b",
        "SHELL [\"bash\"]",
        "ENV PATH=/x:$PATH",
        "ENV A=\"b c\"",
        "ENV A=b\\ c",
        "ENV A=b C",
        "ENV =x",
        "ENV A",
        "ENV",
        "WORKDIR $HOME",
        "WORKDIR \"/a b\"",
        "USER ${USER}",
        "VOLUME /data",
        "ONBUILD RUN x",
        "HEALTHCHECK NONE",
        "FROM y",
    ] {
        assert_eq!(description(&format!("FROM x\n{text}")), None, "{text}");
    }
    assert_eq!(description("FROM scratch"), None);
}

#[test]
fn faults_are_told_with_their_line() {
    for (text, line, wanted) in [
        ("", 1, "no FROM"),
        ("# only\n", 1, "no FROM"),
        ("\nRUN x", 2, "has to be FROM"),
        ("FROM", 1, "names no image"),
        ("FROM a\n\nFROM --mount=x b", 3, "unknown flag"),
        ("FROM a b", 1, "more than"),
        ("FROM a AS", 1, "more than"),
        ("FROM a AS b c", 1, "more than"),
        ("FROM a:$TAG", 1, "no ARG"),
        ("ARG TAG\nFROM a:$TAG", 2, "no ARG"),
        ("FROM a:${TAG", 1, "no ARG"),
        ("ARG A=\nFROM $A", 2, "no ARG"),
    ] {
        let error = Dockerfile::parse(text).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("line {line} ")),
            "{text:?}: {error}"
        );
        assert!(error.contains(wanted), "{text:?}: {error}");
    }
    let error = Dockerfile::parse("FROM --platform=linux/s390x a").unwrap_err();
    assert!(
        matches!(error, ImagesError::WrongPlatform { .. }),
        "{error}"
    );
    assert!(Dockerfile::parse(&"FROM a\n".repeat(33)).is_err());
    assert!(Dockerfile::parse(&"#".repeat(2 << 20)).is_err());
}

#[test]
fn stages_start_from_what_was_pulled() {
    let text = "ARG V=1\nFROM base:$V AS Build\nRUN a && \\\n  # note\n  b\n\
                RUN <<EOF\nFROM not:this\nEOF\nFROM build as second\nFROM scratch\n\
                FROM \\\n  base:1\nFROM other\nCOPY --from=build /a /b";
    let parsed = Dockerfile::parse(text).unwrap();
    assert_eq!(parsed.bases(), ["base:1", "other"]);
    assert_eq!(
        parsed.rebased(|base| format!("oci:/{base}")),
        "ARG V=1\nFROM oci:/0 AS build\nRUN a && \\\n  # note\n  b\n\
         RUN <<EOF\nFROM not:this\nEOF\nFROM build as second\nFROM scratch\n\
         FROM oci:/0\n\nFROM oci:/1\nCOPY --from=build /a /b\n"
    );
}

#[test]
fn another_escape_character_can_be_chosen() {
    let text = "# escape=`\nFROM x\nRUN a `\n b\nENV A=c\\";
    let parsed = Dockerfile::parse(text).unwrap();
    let keywords: Vec<&str> = parsed
        .instructions
        .iter()
        .map(|instruction| instruction.keyword.as_str())
        .collect();
    assert_eq!(keywords, ["FROM", "RUN", "ENV"]);
}

proptest::proptest! {
    #[test]
    fn nothing_panics(lines in proptest::collection::vec("(FROM|ARG|RUN|ENV|CMD|#)?[ -~äé\t]{0,20}(\\\\|<<EOF)?", 0..12)) {
        let text = lines.join("\n");
        if let Ok(parsed) = Dockerfile::parse(&text) {
            let _found = parsed.description();
            let _found = parsed.rebased(|base| base.to_string());
        }
    }
}
