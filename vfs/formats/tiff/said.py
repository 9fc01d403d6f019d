"""What tags of TIFF files say in the vocabulary of `vfs.model.metadata`: those of TIFF 6, and of makers of instruments.

`vfs.formats.tiff_structure.instruments` reads the latter.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from vfs.formats import pilatus, serialem
from vfs.formats.tiff_structure import sem_texts
from vfs.formats.tiff_structure.scales import TVIPS_DIFFRACTION
from vfs.model.metadata import DEGREES, Term, date_and_time, in_form, of_unit

_BEAMS = {"EBeam": "SEM", "IBeam": "FIB"}
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_LENSES = "jeol:ImageFormingSystem:"
_DIFFRACTION = (f"{_LENSES}ModeString", "DIFF")
_TVIPS_MODE = ("tvips:TemMode", str(TVIPS_DIFFRACTION))


def _beam(name: Any) -> str | None:
    return _BEAMS.get(str(name))


def _fei_time(user: Any) -> str | None:
    return date_and_time(user.get("Date"), user.get("Time")) if isinstance(user, Mapping) else None


def _of_beam(beam: str) -> tuple[Term, ...]:
    """Return the terms of what FEI writes of a beam, where it is that of the image."""
    given = ("fei:Beam:Beam", beam)
    return (
        Term("beam_energy", f"fei:{beam}:HV", zero=False, given=given),
        Term("beam_current", f"fei:{beam}:BeamCurrent", zero=False, given=given),
        Term("working_distance", f"fei:{beam}:WD", zero=False, given=given),
    )


_FEI = (
    Term("authors", "fei:User:User"),
    Term("notes", "fei:User:UserText"),
    Term("time", "fei:User", take=_fei_time),
    Term("time", "fei:PrivateFei:TimeOfCreation", take=partial(in_form, "%d.%m.%Y %H:%M:%S")),
    Term("microscope", "fei:System:SystemType"),
    Term("serial_number", "fei:System:Dnumber"),
    Term("software", "fei:System:Software"),
    Term("instrument", "fei:Beam:Beam", take=_beam),
    *_of_beam("EBeam"),
    *_of_beam("IBeam"),
    Term("beam_energy", "fei:Beam:HV", zero=False),
    Term("working_distance", "fei:Stage:WorkingDistance", zero=False),
    Term("spot_size", "fei:Beam:Spot"),
    Term("dwell_time", "fei:Scan:Dwelltime", zero=False),
    Term("frame_time", "fei:Scan:FrameTime", zero=False),
    Term("scan_rotation", "fei:Beam:ScanRotation"),
    Term("stage.alpha", "fei:Stage:StageT"),
    Term("stage.rotation", "fei:Stage:StageR"),
    Term("stage.x", "fei:Stage:StageX"),
    Term("stage.y", "fei:Stage:StageY"),
    Term("stage.z", "fei:Stage:StageZ"),
    Term("detector", "fei:Detectors:Name"),
)


def _entry(said: Any) -> str:
    """Return value and unit of an entry of Zeiss as a text."""
    return f"{said.get('value')} {said.get('unit', '')}" if isinstance(said, Mapping) else ""


def _zeiss_in(base: str, said: Any) -> float | None:
    return of_unit(base, _entry(said).replace("Secs", "s").replace(" X", "x").replace("K x", "kx").replace("Kx", "kx"))


def _plain(said: Any) -> Any:
    return said.get("value") if isinstance(said, Mapping) else None


def _zeiss_time(said: Any) -> str | None:
    """Return what AP_DATE (3 Feb 2016) and AP_TIME (14:10:18) say."""
    day, at = (_plain(said.get(key)) if isinstance(said, Mapping) else "" for key in ("AP_DATE", "AP_TIME"))
    parts = str(day).split()
    month = _MONTHS.find(parts[1][:3].title()) if len(parts) == 3 and len(parts[1]) > 2 else -1
    if month < 0 or month % 3:
        return None
    return in_form("%d %m %Y %H:%M:%S", f"{parts[0]} {month // 3 + 1} {parts[2]} {at}")


def _sem(said: Any) -> str:
    return "SEM"


_ZEISS = (
    Term("authors", "zeiss:SV_USER_NAME", take=_plain),
    Term("notes", "zeiss:SV_USER_TEXT", take=_plain),
    Term("sample", "zeiss:SV_SAMPLE_ID", take=_plain),
    Term("time", "zeiss", take=_zeiss_time),
    Term("microscope", "zeiss:DP_SEM", take=_plain),
    Term("serial_number", "zeiss:SV_SERIAL_NUMBER", take=_plain),
    Term("software", "zeiss:SV_VERSION", take=_plain),
    Term("instrument", "zeiss:AP_ACTUALKV", take=_sem),
    Term("beam_energy", "zeiss:AP_ACTUALKV", take=partial(_zeiss_in, "V"), zero=False),
    Term("beam_current", "zeiss:AP_IPROBE", take=partial(_zeiss_in, "A"), zero=False),
    Term("magnification", "zeiss:AP_MAG", take=partial(_zeiss_in, "x"), zero=False),
    Term("working_distance", "zeiss:AP_WD", take=partial(_zeiss_in, "m"), zero=False),
    Term("dwell_time", "zeiss:DP_DWELL_TIME", take=partial(_zeiss_in, "s"), zero=False),
    Term("frame_time", "zeiss:AP_FRAME_TIME", take=partial(_zeiss_in, "s"), zero=False),
    Term("scan_rotation", "zeiss:AP_SCANROTATION", DEGREES, take=_plain),
    Term("stage.alpha", "zeiss:AP_STAGE_AT_T", DEGREES, take=_plain),
    Term("stage.alpha", "zeiss:AP_TILT_ANGLE", DEGREES, take=_plain),
    Term("stage.rotation", "zeiss:AP_STAGE_AT_R", DEGREES, take=_plain),
    Term("stage.x", "zeiss:AP_STAGE_AT_X", take=partial(_zeiss_in, "m")),
    Term("stage.y", "zeiss:AP_STAGE_AT_Y", take=partial(_zeiss_in, "m")),
    Term("stage.z", "zeiss:AP_STAGE_AT_Z", take=partial(_zeiss_in, "m")),
    Term("detector", "zeiss:DP_DETECTOR_TYPE", take=_plain),
    Term("detector", "zeiss:DP_DETECTOR_CHANNEL", take=_plain),
)


def _tescan_time(main: Any) -> str | None:
    return in_form("%Y-%m-%d %H:%M:%S", f"{main.get('Date')} {main.get('Time')}") if isinstance(main, Mapping) else None


def _column(name: str, said: Any) -> str:
    return name


def _of_column(name: str) -> tuple[Term, ...]:
    """Return the terms of what Tescan writes of the column that made an image, SEM or FIB."""
    at = f"tescan:{name}:"
    return (
        Term("instrument", f"tescan:{name}", take=partial(_column, name)),
        Term("beam_energy", f"{at}HV", zero=False),
        Term("beam_current", f"{at}PredictedBeamCurrent", zero=False),
        Term("working_distance", f"{at}WD", zero=False),
        Term("dwell_time", f"{at}DwellTime", zero=False),
        Term("scan_rotation", f"{at}ScanRotation", DEGREES),
        Term("stage.alpha", f"{at}StageTilt", DEGREES),
        Term("stage.rotation", f"{at}StageRotation", DEGREES),
        Term("stage.x", f"{at}StageX"),
        Term("stage.y", f"{at}StageY"),
        Term("stage.z", f"{at}StageZ"),
        Term("detector", f"{at}Detector"),
    )


_TESCAN = (
    Term("authors", "tescan:MAIN:UserName"),
    Term("notes", "tescan:MAIN:Note"),
    Term("time", "tescan:MAIN", take=_tescan_time),
    Term("microscope", "tescan:MAIN:Device"),
    Term("serial_number", "tescan:MAIN:SerialNumber"),
    Term("software", "tescan:MAIN:SoftwareVersion"),
    Term("magnification", "tescan:MAIN:Magnification", zero=False),
    *_of_column("SEM"),
    *_of_column("FIB"),
)

_SIS = (
    Term("title", "sis:name"),
    Term("magnification", "sis:magnification", zero=False),
    Term("detector", "sis:cameraname"),
)


def _tvips_time(said: Any) -> str | None:
    """Return what Date (year, month and day, in 16, 8 and 8 bits) and Time (seconds of the day) say."""
    date, at = (said.get(key) if isinstance(said, Mapping) else None for key in ("Date", "Time"))
    if not isinstance(date, int) or not isinstance(at, int) or not date or not 0 <= at < 86400:
        return None
    return in_form(
        "%Y-%m-%d %H:%M:%S",
        f"{date >> 16:04}-{date >> 8 & 255:02}-{date & 255:02} {at // 3600}:{at // 60 % 60}:{at % 60}",
    )


def _nth(k: int, position: Any) -> Any:
    return position[k] if isinstance(position, list) and len(position) > k else None


def _tvips_mode(mode: Any) -> str | None:
    return "diffraction" if str(mode) == _TVIPS_MODE[1] else None


def _both(y: str, x: str, said: Any) -> Any:
    return [said.get(y), said.get(x)] if isinstance(said, Mapping) else None


_TVIPS = (
    Term("title", "tvips:ImageName"),
    Term("notes", "tvips:Comment"),
    Term("time", "tvips", take=_tvips_time),
    Term("microscope", "tvips:TemType"),
    Term("mode", "tvips:TemMode", take=_tvips_mode),
    Term("beam_energy", "tvips:TemHighTension", zero=False),
    Term("camera_length", "tvips:TemMagnification", 1e-3, zero=False, given=_TVIPS_MODE),
    *(
        Term("magnification", "tvips:TemMagnification", zero=False, given=("tvips:TemMode", str(mode)))
        for mode in range(TVIPS_DIFFRACTION)
    ),
    Term("exposure_time", "tvips:ExposureTime", 1e-3, zero=False),
    *(
        Term(name, "tvips:TemStagePosition", factor, take=partial(_nth, k))
        for k, (name, factor) in enumerate(
            [("stage.x", 1.0), ("stage.y", 1.0), ("stage.z", 1.0), ("stage.alpha", DEGREES), ("stage.beta", DEGREES)]
        )
    ),
    Term("detector", "tvips:CameraType"),
    Term("binning", "tvips", take=partial(_both, "BinningY", "BinningX")),
    Term("pixel_size", "tvips", 1e-9, take=partial(_both, "PhysicalPixelSizeY", "PhysicalPixelSizeX")),
)


def _jeol_instrument(mode: Any) -> str | None:
    return {"eosTEM": "TEM", "eosASID": "STEM"}.get(str(mode))


def _jeol_mode(mode: Any) -> str | None:
    return {"DIFF": "diffraction", "MAG": "image"}.get(str(mode))


_JEOL = (
    Term("authors", "jeol:Operator"),
    Term("notes", "jeol:Comment"),
    Term("sample", "jeol:Specimen"),
    Term("time", "jeol:DateTime"),
    Term("microscope", "jeol:Instruments"),
    Term("manufacturer", "jeol:Manufacturer"),
    Term("instrument", "jeol:Eos:EosMode", take=_jeol_instrument),
    Term("mode", f"{_LENSES}ModeString", take=_jeol_mode),
    Term("beam_energy", "jeol:ElectronGun:AccelerationVoltage", zero=False),
    Term("magnification", f"{_LENSES}SelectorValue", zero=False, given=(f"{_LENSES}ModeString", "MAG")),
    Term("camera_length", f"{_LENSES}SelectorString", take=partial(of_unit, "m"), zero=False, given=_DIFFRACTION),
    Term("defocus", f"{_LENSES}DefocusValue", take=partial(of_unit, "m")),
    Term("spot_size", "jeol:IlluminationSystem:SpotSizeString"),
    Term("stage.alpha", "jeol:GonioStage:StagePosition:TX", DEGREES),
    Term("stage.beta", "jeol:GonioStage:StagePosition:TY", DEGREES),
)

_TIFF = (
    Term("manufacturer", "make"),
    Term("software", "software"),
    Term("authors", "artist"),
    Term("time", "date_time", take=partial(in_form, "%Y:%m:%d %H:%M:%S")),
)

TERMS = (
    *(*_FEI, *_ZEISS, *_TESCAN, *_SIS, *_TVIPS, *_JEOL, *sem_texts.TERMS),
    *(*pilatus.terms("pilatus"), *serialem.TERMS, *_TIFF),
)
