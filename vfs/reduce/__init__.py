"""Results from frames: reductions, and the one pass over a scan that feeds any number of them.

- `reduction`: what a reduction is; `over_frames`, `in_frames`: those that everybody wants.
- `shapes`: detectors; `masks`: their pixels; `sums`: what is made under them, and under masks of any kind.
- `backgrounds`: patterns without background.
- `blocks`: brings frames into reach; `passes`: runs reductions; `result`: what they give.
- `partitions`: lets the workers of an executor share a pass, by `executors` and `stop_file`.
"""

CLASSES = (
    dict.fromkeys(("Sum", "Mean", "Std", "Variance", "Max", "Min"), "over_frames")
    | dict.fromkeys(("FrameSum", "Masks", "CenterOfMass", "RadialSum"), "in_frames")
    | dict.fromkeys(("Disk", "Ring", "Rectangle", "Point", "Polygon", "Grid"), "shapes")
    | {"RadialMean": "radial", "Histogram": "histogram", "WithoutBackground": "backgrounds"}
    | dict.fromkeys(("BrightField", "AnnularBrightField", "AnnularDarkField", "HighAngleDarkField"), "usual")
)
"""Class of each reduction -> its module here.

`vfs` exports them, `spelling` reads and writes them as text, and messages name them.
"""
