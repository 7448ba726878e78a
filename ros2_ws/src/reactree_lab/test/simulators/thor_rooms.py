"""Four rooms of our own for the AI2-THOR peer: what stands where, and what lies in or on it."""

from __future__ import annotations

from dataclasses import dataclass


def _classes(names: str) -> set[str]:
    return set(names.split())


#: What can be done with a class of objects.
OPENABLE = _classes("Box Cabinet Drawer Fridge Laptop Microwave Safe")
TOGGLEABLE = _classes("CoffeeMachine DeskLamp Faucet FloorLamp LightSwitch Microwave StoveKnob Television Toaster")
SLICEABLE = _classes("Apple Bread Lettuce Potato Tomato")
DIRTYABLE = _classes("Bowl Cloth Cup Mug Pan Plate Pot")
FILLABLE = _classes("Bowl Cup Mug Pot Vase")
CARRIERS = _classes("Bowl Box Cup Mug Pan Plate Pot")  # receptacles that can be picked up
NO_RECEPTACLE = _classes("Bathtub DeskLamp Faucet FloorLamp LightSwitch Sink StoveKnob Television Window")
MOVEABLE = _classes("ArmChair Bed Chair CoffeeMachine CoffeeTable Desk DiningTable Dresser FloorLamp GarbageCan")
MOVEABLE |= _classes("LaundryHamper Microwave SideTable Sofa TVStand Television Toaster")


@dataclass(frozen=True)
class Furniture:
    """Something that stays: centre and half sizes in metres.

    Attributes:
        front: The direction, x and z, from which alone it can be seen; None: from everywhere.
        holds: What is in or on it, e.g. ``Apple Mug*2``.
    """

    kind: str
    x: float
    y: float
    z: float
    half_x: float = 0.2
    half_z: float = 0.2
    front: tuple[float, float] | None = None
    holds: str = ""


@dataclass(frozen=True)
class Room:
    """A room: a rectangle from (0, 0) to (width, depth), in metres, where the agent stands at the start."""

    width: float
    depth: float
    start: tuple[float, float]
    furniture: tuple[Furniture, ...]
    #: Positions that are called reachable but on which the agent cannot be put.
    stubborn: tuple[tuple[float, float], ...] = ()


KITCHEN = Room(
    width=5.0,
    depth=5.0,
    start=(2.0, 1.5),
    stubborn=((0.75, 1.5), (4.0, 0.75)),
    furniture=(
        Furniture("CounterTop", 0.25, 0.9, 1.25, 0.25, 0.75, holds="Knife Bread Spatula ButterKnife SaltShaker"),
        Furniture("CounterTop", 2.5, 0.9, 0.25, 0.75, 0.25, holds="Potato Plate DishSponge SoapBottle"),
        Furniture("Cabinet", 0.2, 1.6, 0.9, holds="Bowl"),
        Furniture("Cabinet", 0.2, 1.6, 1.6, holds="PepperShaker Cup"),
        Furniture("Drawer", 0.2, 0.6, 1.0, holds="Fork Spoon*2"),
        Furniture("Drawer", 0.2, 0.6, 1.5),
        Furniture("Sink", 0.25, 0.8, 3.0, 0.25, 0.4),
        Furniture("SinkBasin", 0.25, 0.75, 3.0, 0.2, 0.3),
        Furniture("Faucet", 0.1, 1.1, 3.0, 0.05, 0.05),
        Furniture("Fridge", 4.6, 1.0, 0.4, 0.4, 0.4, front=(0.0, 1.0), holds="Egg Lettuce Tomato"),
        Furniture("Microwave", 3.1, 1.2, 0.25, 0.25, 0.2, front=(0.0, 1.0)),
        Furniture("StoveBurner", 1.2, 0.95, 0.25, 0.15, 0.15, holds="Pan"),
        Furniture("StoveBurner", 1.5, 0.95, 0.25, 0.15, 0.15, holds="Pot"),
        Furniture("StoveKnob", 1.3, 0.85, 0.05, 0.05, 0.05),
        Furniture("DiningTable", 2.75, 0.75, 2.75, 0.5, 0.5, holds="Apple*2 Mug Tomato Plate Egg"),
        Furniture("Chair", 3.5, 0.5, 2.75),
        Furniture("CoffeeMachine", 0.25, 1.0, 2.1, 0.15, 0.15, holds="Mug"),
        Furniture("Toaster", 1.85, 1.0, 0.25, 0.1, 0.1),
        Furniture("GarbageCan", 4.75, 0.3, 4.5),
        Furniture("SideTable", 4.7, 0.7, 2.5),
        Furniture("Window", 2.5, 1.6, 4.95, 0.5, 0.05),
        Furniture("LightSwitch", 4.95, 1.3, 3.5, 0.05, 0.05),
    ),
)
LIVING_ROOM = Room(
    width=6.0,
    depth=5.0,
    start=(3.0, 2.0),
    stubborn=((0.75, 2.5),),
    furniture=(
        Furniture("Sofa", 0.4, 0.5, 2.5, 0.4, 1.0, holds="Pillow Newspaper RemoteControl"),
        Furniture("ArmChair", 0.5, 0.5, 4.3, 0.4, 0.4, holds="RemoteControl"),
        Furniture("CoffeeTable", 2.0, 0.4, 2.5, 0.4, 0.5, holds="Laptop Book KeyChain"),
        Furniture("SideTable", 0.3, 0.6, 0.9, 0.25, 0.25, holds="TissueBox Vase"),
        Furniture("SideTable", 5.7, 0.6, 4.5, 0.25, 0.25, holds="Statue"),
        Furniture("TVStand", 5.7, 0.5, 2.5, 0.25, 0.8, holds="CreditCard"),
        Furniture("Television", 5.75, 1.0, 2.5, 0.1, 0.5),
        Furniture("Drawer", 5.7, 0.3, 2.0, holds="KeyChain Watch"),
        Furniture("Drawer", 5.7, 0.3, 3.0),
        Furniture("Dresser", 3.0, 0.8, 0.25, 0.6, 0.25, holds="Box WateringCan"),
        Furniture("FloorLamp", 0.9, 1.4, 4.75, 0.1, 0.1),
        Furniture("GarbageCan", 5.7, 0.3, 0.4),
        Furniture("Window", 3.0, 1.6, 4.95, 0.5, 0.05),
    ),
)
BEDROOM = Room(
    width=5.0,
    depth=5.0,
    start=(2.0, 2.0),
    stubborn=((3.0, 0.75),),
    furniture=(
        Furniture("Bed", 0.9, 0.5, 4.2, 0.9, 0.7, holds="Pillow Book Laptop"),
        Furniture("Desk", 3.0, 0.75, 0.3, 0.7, 0.3, holds="Pen Pencil AlarmClock CD Mug"),
        Furniture("DeskLamp", 3.5, 1.0, 0.2, 0.1, 0.1),
        Furniture("Chair", 3.75, 0.5, 0.9),
        Furniture("SideTable", 2.1, 0.6, 4.7, holds="KeyChain Bowl"),
        Furniture("Dresser", 4.7, 0.9, 3.0, 0.25, 0.6, holds="CellPhone CreditCard"),
        Furniture("Drawer", 4.7, 0.4, 2.7, holds="Pen"),
        Furniture("Drawer", 4.7, 0.4, 3.3),
        Furniture("Shelf", 0.15, 1.2, 1.0, 0.15, 0.4, holds="CD Book"),
        Furniture("Shelf", 0.15, 1.6, 1.0, 0.15, 0.4, holds="AlarmClock"),
        Furniture("Safe", 0.3, 0.4, 2.2, 0.25, 0.25, front=(1.0, 0.0), holds="Watch"),
        Furniture("GarbageCan", 4.75, 0.3, 0.4),
        Furniture("LaundryHamper", 4.7, 0.4, 4.6),
        Furniture("Window", 3.5, 1.6, 4.95, 0.4, 0.05),
    ),
)
BATHROOM = Room(
    width=4.0,
    depth=4.0,
    start=(2.0, 2.0),
    stubborn=((2.0, 0.75),),
    furniture=(
        Furniture("CounterTop", 2.2, 0.9, 0.25, 0.9, 0.25, holds="SoapBottle Candle SprayBottle"),
        Furniture("Sink", 1.6, 0.85, 0.25, 0.3, 0.2),
        Furniture("SinkBasin", 1.6, 0.8, 0.25, 0.25, 0.2),
        Furniture("Faucet", 1.6, 1.1, 0.1, 0.05, 0.05),
        Furniture("Cabinet", 2.2, 0.4, 0.3, holds="ToiletPaper Cloth"),
        Furniture("Cabinet", 2.8, 0.4, 0.3),
        Furniture("Bathtub", 0.4, 0.4, 2.4, 0.4, 0.8),
        Furniture("BathtubBasin", 0.4, 0.3, 2.4, 0.35, 0.7, holds="SoapBar Cloth"),
        Furniture("Toilet", 3.6, 0.5, 1.5, 0.3, 0.3, holds="Candle"),
        Furniture("ToiletPaperHanger", 3.9, 0.7, 2.1, 0.1, 0.1, holds="ToiletPaper"),
        Furniture("TowelHolder", 3.9, 1.2, 2.9, 0.1, 0.2),
        Furniture("HandTowelHolder", 0.1, 1.2, 0.6, 0.1, 0.1, holds="HandTowel"),
        Furniture("Shelf", 2.0, 1.2, 3.85, 0.5, 0.15, holds="SoapBar TissueBox"),
        Furniture("GarbageCan", 3.7, 0.3, 3.7, holds="Plunger"),
    ),
)

ROOMS = {
    "FloorPlan1": KITCHEN,
    "FloorPlan201": LIVING_ROOM,
    "FloorPlan301": BEDROOM,
    "FloorPlan401": BATHROOM,
}
