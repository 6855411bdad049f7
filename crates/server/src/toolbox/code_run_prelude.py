# Runs the code on standard input as a program of its own. A chart that it shows with matplotlib is printed as a line
# that the server takes out of the output; without matplotlib nothing here costs anything.


def _run():
    import builtins
    import os
    import sys
    import types

    prefix = "dtn_artifact_k39fd2:"

    def number(value):
        value = float(value)
        return value if value == value and abs(value) != float("inf") else 0.0

    def points(xs, ys):
        found = []
        for x, y in zip(xs, ys):
            try:
                found.append([number(x), number(y)])
            except (TypeError, ValueError):
                continue
        return found

    def axis(which, name):
        ticks = [number(tick) for tick in which.get_ticklocs()]
        labels = [label.get_text() for label in which.get_ticklabels()]
        return {name + "_ticks": ticks, name + "_tick_labels": labels, name + "_scale": str(which.get_scale())}

    def drawn(axes):
        """The kind of a chart and its elements, as far as they can be told from what was drawn."""
        from matplotlib.collections import PathCollection
        from matplotlib.container import BarContainer
        from matplotlib.patches import Wedge

        wedges = [patch for patch in axes.patches if isinstance(patch, Wedge)]
        if wedges:
            return "pie", [
                {"label": wedge.get_label(), "angle": number(wedge.theta2 - wedge.theta1), "radius": number(wedge.r)}
                for wedge in wedges
            ]
        bars = [container for container in axes.containers if isinstance(container, BarContainer)]
        if bars:
            ticks = {number(t): l.get_text() for t, l in zip(axes.get_xticks(), axes.get_xticklabels())}
            elements = []
            for container in bars:
                for bar in container.patches:
                    middle = number(bar.get_x() + bar.get_width() / 2)
                    elements.append(
                        {
                            "label": ticks.get(middle) or str(middle),
                            "group": str(container.get_label()),
                            "value": str(number(bar.get_height())),
                        }
                    )
            return "bar", elements
        if axes.lines:
            return "line", [
                {"label": str(line.get_label()), "points": points(*line.get_data())} for line in axes.lines
            ]
        dots = [item for item in axes.collections if isinstance(item, PathCollection)]
        if dots:
            return "scatter", [
                {"label": str(item.get_label()), "points": [[number(x), number(y)] for x, y in item.get_offsets()]}
                for item in dots
            ]
        return "unknown", []

    def describe(axes):
        kind, elements = drawn(axes)
        chart = {
            "type": kind,
            "title": axes.get_title(),
            "x_label": axes.get_xlabel(),
            "y_label": axes.get_ylabel(),
            "elements": elements,
        }
        if kind in ("line", "scatter"):
            chart.update(axis(axes.xaxis, "x"))
            chart.update(axis(axes.yaxis, "y"))
        return chart

    def hook(pyplot):
        def show(*_args, **_kwargs):
            import base64
            import io
            import json

            for index in pyplot.get_fignums():
                figure = pyplot.figure(index)
                image = io.BytesIO()
                figure.savefig(image, format="png")
                charts = [describe(axes) for axes in figure.axes]
                if len(charts) == 1:
                    chart = charts[0]
                else:
                    title = figure._suptitle.get_text() if figure._suptitle else ""
                    chart = {"type": "composite_chart", "title": title, "elements": charts}
                chart["png"] = base64.b64encode(image.getvalue()).decode()
                sys.stdout.flush()
                print(prefix + json.dumps({"type": "chart", "value": chart}), flush=True)
            pyplot.close("all")

        pyplot.show = show

    class Finder:
        """Sees the import of pyplot once, and hooks what was loaded."""

        def find_spec(self, name, path=None, target=None):
            if name != "matplotlib.pyplot":
                return None
            import importlib.util

            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            if spec is None or spec.loader is None:
                return spec
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                hook(module)

            spec.loader.exec_module = exec_module
            return spec

    os.environ.setdefault("MPLBACKEND", "Agg")
    sys.meta_path.insert(0, Finder())
    code = sys.stdin.buffer.read()
    sys.argv[0] = "-"
    main = types.ModuleType("__main__")
    main.__builtins__ = builtins
    sys.modules["__main__"] = main
    return compile(code, "<stdin>", "exec"), main.__dict__


def _start():
    import sys

    try:
        code, names = _run()
        exec(code, names)
    except SystemExit:
        raise
    except BaseException as error:
        # The program's own frames only, as if it had been run alone.
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == "<string>":
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        sys.stdout.flush()
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


_start()
