"""Rows of SQLAlchemy, SQLModel and Django as results: real instances, detached, without a codec."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any, Optional

import pytest
import sqlmodel
from django.core.exceptions import FieldDoesNotExist
from sqlalchemy import ForeignKey, create_engine, inspect, select, text
from sqlalchemy.engine import Row
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    MappedAsDataclass,
    Session,
    joinedload,
    mapped_column,
    relationship,
    selectinload,
)
from sqlalchemy.orm.exc import DetachedInstanceError
from sqlalchemy.pool import StaticPool

from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.intercept.session.library_values import add_library_codecs
from pytest_agentreplay.values import freeze, load
from pytest_agentreplay.values.arguments import freeze_call
from tests.support.django_settings import set_up_django


class Base(DeclarativeBase):
    pass


class Category(Base):
    __tablename__ = "category"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    products: Mapped[list[Product]] = relationship(back_populates="category")


class Product(Base):
    __tablename__ = "product"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    price: Mapped[Decimal | None]
    notes: Mapped[str] = mapped_column(deferred=True, default="n")
    kind: Mapped[str] = mapped_column(default="product")
    category_id: Mapped[int | None] = mapped_column(ForeignKey("category.id"))
    category: Mapped[Category | None] = relationship(back_populates="products")
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "product"}


class Book(Product):
    __mapper_args__ = {"polymorphic_identity": "book"}


class Hero(sqlmodel.SQLModel, table=True):
    id: int | None = sqlmodel.Field(default=None, primary_key=True)
    name: str


class DataBase(MappedAsDataclass, DeclarativeBase):
    pass


class Item(DataBase):
    __tablename__ = "item"
    id: Mapped[int] = mapped_column(primary_key=True, init=False)
    name: Mapped[str]
    labels: Mapped[list[Label]] = relationship(default_factory=list)


class Label(DataBase):
    __tablename__ = "label"
    id: Mapped[int] = mapped_column(primary_key=True, init=False)
    item_id: Mapped[int] = mapped_column(ForeignKey("item.id"), init=False)
    text: Mapped[str]


@pytest.fixture(scope="module")
def engine():
    made = create_engine("sqlite://", poolclass=StaticPool)
    for base in (Base, sqlmodel.SQLModel, DataBase):
        base.metadata.create_all(made)
    with Session(made) as session:
        shoes = Category(id=1, name="shoes")
        session.add(Product(id=1, name="boot", price=Decimal("18.50"), category=shoes))
        session.add(Book(id=2, name="atlas", price=None, category=shoes))
        session.add_all([Hero(name="Ada"), Item(name="i", labels=[Label(text="l")])])
        session.commit()
    yield made
    made.dispose()


def again(value: Any, hint: Any = None) -> Any:
    codecs = add_library_codecs(())
    return load(freeze(value, hint=hint, codecs=codecs), hint=hint, codecs=codecs)


def test_rows_by_annotation_are_detached_instances(engine):
    with Session(engine) as session:
        rows = again(session.scalars(select(Product).order_by(Product.id)).all(), list[Product])
    boot, atlas = rows
    assert (type(boot), type(atlas)) == (Product, Book)
    assert (boot.name, boot.price, atlas.price) == ("boot", Decimal("18.50"), None)
    assert inspect(boot).detached
    assert not inspect(boot).modified
    for unloaded in ("category", "notes"):
        with pytest.raises(DetachedInstanceError):
            getattr(boot, unloaded)
    boot.name = "shoe"
    assert inspect(boot).modified
    with Session(engine) as session:
        session.add(atlas)
        assert atlas.category.name == "shoes"
        session.rollback()


def test_loaded_relationships_come_along_and_lead_back(engine):
    query = select(Product).options(joinedload(Product.category).selectinload(Category.products)).where(Product.id == 1)
    with Session(engine) as session:
        found = again({"best": session.scalars(query).unique().one(), "other": None}, dict[str, Optional[Product]])  # noqa: UP045  as users write it
    boot = found["best"]
    assert boot.category.products[0] is boot
    assert [product.name for product in boot.category.products] == ["boot", "atlas"]
    boot.category.products.append(Product(name="new"))
    assert found["other"] is None


@pytest.mark.parametrize("hint", [None, tuple[Hero, Item], Any])
def test_other_ways_to_map_a_class(engine, hint):
    with sqlmodel.Session(engine) as session:
        rows = session.exec(sqlmodel.select(Hero)).one(), session.get(Item, 1, options=[selectinload(Item.labels)])
        hero, item = again(rows, hint)
    assert (type(hero), hero.model_dump()) == (Hero, {"id": 1, "name": "Ada"})
    assert [label.text for label in item.labels] == ["l"]
    assert inspect(item).identity == (1,)


def declare_part():
    class OwnBase(DeclarativeBase):
        pass

    class Part(OwnBase):
        __tablename__ = "part"
        id: Mapped[int] = mapped_column(primary_key=True)
        name: Mapped[str]

    return Part


def test_a_row_comes_back_before_the_program_has_configured_its_mappers():
    recorded, replayed = declare_part(), declare_part()
    frozen = freeze(recorded(id=1, name="bolt"), hint=recorded, codecs=add_library_codecs(()))
    part = load(frozen, hint=replayed, codecs=add_library_codecs(()))
    assert (type(part), part.id, part.name) == (replayed, 1, "bolt")


def test_rows_of_results_and_mappings(engine):
    with Session(engine) as session:
        made = again(session.execute(select(Product, Product.name.label("title")).where(Product.id == 1)).all())
        numbers = again(session.execute(text("select 1 as one, 2 as two")).mappings().all())
    assert isinstance(made[0], Row)
    assert (made[0].title, made[0][0].name, made[0]._fields) == ("boot", "boot", ("Product", "title"))
    assert [dict(row) for row in numbers] == [{"one": 1, "two": 2}]


@dataclasses.dataclass
class Sale:
    product: Product


@dataclasses.dataclass
class Return:
    product: Product


def test_a_row_that_stands_in_two_members_of_a_union_comes_back_as_one(engine):
    with Session(engine) as session:
        boot = session.get(Product, 1)
        sale, returned = again([Sale(boot), Return(boot)], list[Sale | Return])
    assert (type(sale), type(returned), sale.product.name) == (Sale, Return, "boot")
    assert sale.product is returned.product


def test_a_row_that_an_arm_has_written_which_failed_is_written_anew(engine):
    with Session(engine) as session:
        boot = session.get(Product, 1)
        boots, sale = again((boot, Sale(boot)), tuple[Product, Sale] | list[Sale])
    assert (boots.name, sale.product) == ("boot", boots)


def test_a_row_that_a_commit_has_expired_is_loaded_and_one_that_was_never_stored_stays_so(engine):
    with Session(engine) as session:
        boot = session.get(Product, 1)
        session.commit()
        assert again(boot, Product).name == "boot"
    new = again(Product(name="new"), Product)
    assert inspect(new).transient


def test_a_file_names_no_class_but_a_table(engine):
    with pytest.raises(CannotFreeze, match="no loaded class of a table"):
        load({"$row": ["subprocess.Popen", {"args": "x"}]})
    with pytest.raises(CannotFreeze):
        load({"$row": [f"{__name__}.Product", {"__class__": 1}]})


def test_as_an_argument_a_row_is_what_is_loaded_of_it(engine):
    with Session(engine) as session:
        boot, hero = session.get(Product, 1), session.get(Hero, 1)
        first = freeze_call({"row": boot, "hero": hero})
        assert first.gaps == []
        kind, state = first.arguments["row"]["$state"]
        assert kind.endswith("test_rows.Product")
        assert state["price"] == {"$decimal": "18.5000000000"} or state["price"] == {"$decimal": "18.50"}
        assert "category" not in state
        boot.price = Decimal("1.00")
        hero.name = "Eve"
        second = freeze_call({"row": boot, "hero": hero})
        assert first.arguments["row"] != second.arguments["row"]
        assert first.arguments["hero"] != second.arguments["hero"]
        session.rollback()
        (gap,) = freeze_call({"row": boot}).gaps
        assert "expired columns" in gap.why
        assert inspect(boot).expired_attributes


# Django


@pytest.fixture(scope="module")
def shop():
    set_up_django()
    from django.db import connection, models

    class Shelf(models.Model):  # noqa: DJ008
        name = models.CharField(max_length=9)

        class Meta:
            app_label = "shop"

    class Book(models.Model):  # noqa: DJ008
        name = models.CharField(max_length=9)
        price = models.DecimalField(max_digits=5, decimal_places=2)
        shelf = models.ForeignKey(Shelf, on_delete=models.CASCADE, related_name="books")
        cover = models.FileField(null=True)
        notes = models.TextField(default="n")

        class Meta:
            app_label = "shop"

    with connection.schema_editor() as editor:
        editor.create_model(Shelf)
        editor.create_model(Book)
    shelf = Shelf.objects.create(name="maps")
    for name in ("atlas", "globe"):
        Book.objects.create(name=name, price="2.50", shelf=shelf, cover=f"{name}.png")
    yield Shelf, Book
    connection.close()


def test_django_rows(shop):
    from django.db import connection

    _, book = shop
    rows = list(book.objects.select_related("shelf").defer("notes").order_by("id"))
    assert rows[0].cover.name == "atlas.png"  # makes a FieldFile of it
    atlas, globe = again(rows, list[book])
    with connection.execute_wrapper(lambda *_: pytest.fail("a query")):
        assert (type(atlas), atlas.pk, atlas.price, globe.shelf.name) == (book, 1, Decimal("2.50"), "maps")
        assert atlas == rows[0]
        assert atlas.cover.name == "atlas.png"
    assert atlas.get_deferred_fields() == {"notes"}
    assert (atlas._state.adding, atlas._state.db) == (False, "default")
    with pytest.raises(FieldDoesNotExist):
        atlas._meta.get_field("gone")


def test_django_rows_with_what_was_prefetched(shop):
    from django.db import connection

    shelf, _ = shop
    found = again(shelf.objects.prefetch_related("books").get(), shelf | None)
    with connection.execute_wrapper(lambda *_: pytest.fail("a query")):
        assert [book.name for book in found.books.all()] == ["atlas", "globe"]
        assert found.books.all()[0].shelf is found


def test_a_django_row_as_an_argument(shop):
    _, book = shop
    atlas = book.objects.get(pk=1)
    first = freeze_call({"row": atlas}).arguments
    atlas.price = Decimal("1.00")
    assert freeze_call({"row": atlas}).arguments != first
