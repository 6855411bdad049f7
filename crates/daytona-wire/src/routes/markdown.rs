//! The table as the page `docs/reference/daytona-coverage.md`.

use std::fmt::Write as _;

use super::{Operation, Origin, Plane, SHIMS, Support, operations};

/// The whole page.
pub fn coverage_markdown() -> String {
    let mut page = String::from(
        "# Daytona's API: what `holm serve` answers\n\n\
         Every operation of Daytona's two OpenAPI documents (0.205.1), and those that SDKs use beyond them (marked *).\n\n\
         - **yes**: answered as Daytona does.\n\
         - **for older SDKs**: answered; newer SDKs do not ask.\n\
         - **503**: answered as Daytona does where its plugin for desktops is not installed.\n\
         - **no**: answered with status 501, code `NOT_IMPLEMENTED`, and what to use instead.\n\n\
         | plane | operations | yes | for older SDKs | 503 | no |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for plane in PLANES {
        let all = operations(plane);
        let count = |wanted: fn(Support) -> bool| {
            all.iter()
                .filter(|operation| wanted(operation.support))
                .count()
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} |",
            title(plane),
            all.len(),
            count(|support| support == Support::Supported),
            count(|support| support == Support::Shim),
            count(|support| support == Support::Unavailable),
            count(|support| matches!(support, Support::NotImplemented { .. })),
        );
    }
    page.push_str(
        "\nWhat is there for older SDKs:\n\n| what | Python SDKs that need it |\n| --- | --- |\n",
    );
    for (what, versions) in SHIMS {
        let _ = writeln!(page, "| {what} | {versions} |");
    }
    for plane in PLANES {
        let _ = write!(page, "\n## {}\n\n{}\n", title(plane), base(plane));
        for tag in tags(plane) {
            let _ = write!(
                page,
                "\n### {tag}\n\n| operation | | answered | use instead |\n| --- | --- | --- | --- |\n"
            );
            for operation in operations(plane).iter().filter(|found| found.tag == tag) {
                row(&mut page, operation);
            }
        }
    }
    page
}

const PLANES: [Plane; 2] = [Plane::ControlPlane, Plane::Toolbox];

fn title(plane: Plane) -> &'static str {
    match plane {
        Plane::ControlPlane => "Control plane",
        Plane::Toolbox => "Toolbox",
    }
}

fn base(plane: Plane) -> &'static str {
    match plane {
        Plane::ControlPlane => "Paths below `DAYTONA_API_URL`.",
        Plane::Toolbox => "Paths below the sandbox's `toolboxProxyUrl` and its id.",
    }
}

/// In the order of their names, so that a reader finds one.
fn tags(plane: Plane) -> Vec<&'static str> {
    let mut tags: Vec<_> = operations(plane)
        .iter()
        .map(|operation| operation.tag)
        .collect();
    tags.sort_unstable_by_key(|tag| tag.to_lowercase());
    tags.dedup();
    tags
}

fn row(page: &mut String, operation: &Operation) {
    let (answered, instead) = match operation.support {
        Support::Supported => ("yes", ""),
        Support::Shim => ("for older SDKs", ""),
        Support::Unavailable => ("503", ""),
        Support::NotImplemented { instead } => ("no", instead),
    };
    let mark = match operation.origin {
        Origin::Specification => "",
        Origin::SdkOnly => " *",
    };
    let _ = writeln!(
        page,
        "| `{} {}`{mark} | {} | {answered} | {instead} |",
        operation.method.as_str(),
        operation.path,
        operation.id,
    );
}
